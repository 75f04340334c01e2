//! Search for placements of ranks.
//!
//! A placement assigns a host to each process; each host has a number of slots. Constructive methods use the traffic between ranks and the latencies of routes:
//! the *weight* of a placement is the sum over pairs of frames times the route's latency. [`search`] plays each method's placement, and improves the best one by
//! simulated annealing with swaps, evaluated by replays. All random numbers come from a seed, so a search is reproducible. Used by `belljar place`.

/// Methods that need no replay.
mod methods;
/// Traffic between ranks.
mod traffic;

use belljar_networks::Latencies;
use belljar_program::Program;
use belljar_sim::{Random, Seed};
use serde::Serialize;

use crate::calibration::Calibration;
use crate::replay::{ReplayError, Setting, replay};
use methods::Ground;
use traffic::Traffic;

/// The method that found a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The traced placement.
    AsRun,
    /// Fills one host after the other.
    Block,
    /// Round robin over the hosts.
    Cyclic,
    /// The process with the most traffic to placed ones comes next, near them.
    Greedy,
    /// Halves of the processes with little traffic between them, on halves of the hosts.
    Bisection,
    /// Swaps in the best of these, evaluated by replays.
    Annealing,
}

impl Method {
    /// The number of methods without a search: each of their placements is played once.
    pub const CONSTRUCTIVE: u64 = 5;

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsRun => "as run",
            Self::Block => "block",
            Self::Cyclic => "cyclic",
            Self::Greedy => "greedy",
            Self::Bisection => "bisection",
            Self::Annealing => "annealing",
        }
    }
}

/// A placement, and the program's duration with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// Its method.
    pub method: Method,
    /// The host of each process, in the program's order.
    pub hosts: Vec<u32>,
    /// Time from the first call's entry to the last's return, in picoseconds.
    pub total_ps: u64,
    /// Frames times latency, summed over pairs of processes, in picoseconds.
    pub weight_ps: u64,
}

/// The limits of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Most processes on each host.
    pub slots: u32,
    /// Most replays by annealing.
    pub tries: u32,
    /// The seed of random numbers.
    pub seed: u64,
}

/// Returns placements of a program in a setting, in ascending order of duration; ties are in the order of methods.
///
/// Calls `each` after each placement that was tried, [`Method::CONSTRUCTIVE`] and [`Effort::tries`] times.
///
/// # Errors
/// The same as for [`replay`], and an error if there are fewer slots than processes.
pub fn search(
    program: &Program,
    calibration: &Calibration,
    setting: &Setting,
    effort: Effort,
    mut each: impl FnMut(),
) -> Result<Vec<Placement>, ReplayError> {
    let (topology, routes) = setting.network.paths().ok_or(ReplayError::NoPlaces)?;
    let processes = program.processes.len();
    let slots = u64::from(topology.hosts()) * u64::from(effort.slots);
    if slots < processes as u64 {
        return Err(ReplayError::Slots { processes, slots });
    }
    if processes == 0 {
        return Err(ReplayError::NoCalls);
    }
    let latencies = Latencies::new(topology.clone(), &routes)?;
    let traffic = Traffic::of(program);
    let mut ground = Ground::new(&traffic, latencies, topology.hosts(), effort.slots);
    let made = [
        (Method::AsRun, setting.hosts.clone()),
        (Method::Block, ground.block()),
        (Method::Cyclic, ground.cyclic()),
        (Method::Greedy, ground.greedy()),
        (Method::Bisection, ground.bisection()),
    ];
    let mut judge = Judge {
        program,
        calibration,
        setting: setting.clone(),
    };
    let mut placements = Vec::new();
    for (method, hosts) in made {
        if ground.fits(&hosts) {
            placements.push(judge.placement(method, hosts, &mut ground)?);
        }
        each();
    }
    placements.sort_by_key(|placement| (placement.total_ps, placement.method));
    if let Some(best) = placements.first().cloned() {
        placements.push(anneal(&mut judge, &mut ground, &best, effort, &mut each)?);
        placements.sort_by_key(|placement| (placement.total_ps, placement.method));
    }
    Ok(placements)
}

/// Plays placements.
struct Judge<'a> {
    program: &'a Program,
    calibration: &'a Calibration,
    setting: Setting,
}

impl Judge<'_> {
    fn total(&mut self, hosts: &[u32]) -> Result<u64, ReplayError> {
        hosts.clone_into(&mut self.setting.hosts);
        let outcome = replay(self.program, self.calibration, &self.setting, || true)?;
        Ok(outcome.total_ps)
    }

    fn placement(
        &mut self,
        method: Method,
        hosts: Vec<u32>,
        ground: &mut Ground<'_>,
    ) -> Result<Placement, ReplayError> {
        Ok(Placement {
            method,
            total_ps: self.total(&hosts)?,
            weight_ps: ground.weight(&hosts),
            hosts,
        })
    }
}

/// Changes a placement by swaps (S. Kirkpatrick, C. Gelatt, M. Vecchi, "Optimization by simulated annealing", 1983): improvements are kept, deteriorations
/// sometimes at first, then ever less often.
fn anneal(
    judge: &mut Judge<'_>,
    ground: &mut Ground<'_>,
    from: &Placement,
    effort: Effort,
    each: &mut dyn FnMut(),
) -> Result<Placement, ReplayError> {
    let mut random = Random::new(Seed(effort.seed), "placement", 0);
    let (mut now, mut best) = (from.clone(), from.clone());
    for turn in 0..effort.tries {
        each();
        let hosts = ground.swapped(&now.hosts, &mut random);
        if hosts == now.hosts {
            continue;
        }
        let next = judge.placement(Method::Annealing, hosts, ground)?;
        let worse = next.total_ps.saturating_sub(now.total_ps) as f64;
        // A hundredth of the whole at first, zero in the end.
        let heat = from.total_ps as f64 / 100.0 * f64::from(effort.tries - turn - 1)
            / f64::from(effort.tries);
        let chance = random.next_u64() as f64 / u64::MAX as f64;
        if worse <= 0.0 || heat > 0.0 && chance < (-worse / heat).exp() {
            now = next;
        }
        if now.total_ps < best.total_ps {
            best = now.clone();
        }
    }
    best.method = Method::Annealing;
    Ok(best)
}

#[cfg(test)]
mod tests;
