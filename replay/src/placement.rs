//! Where ranks are best placed.
//!
//! A placement says the host of each process; hosts have so many slots each. Constructive methods look at who sends how much to whom and at how long ways are: the
//! *weight* of a placement is the sum over pairs of frames times the way's latency. [`search`] plays each method's placement, and lets simulated annealing
//! change the best one by swaps, with the replay as its judge. Everything random comes from a seed, so a search repeats. Called by `belljar place`.

/// Methods that need no replay.
mod methods;
/// Who sends how much to whom.
mod traffic;

use belljar_networks::Latencies;
use belljar_program::Program;
use belljar_sim::{Random, Seed};
use serde::Serialize;

use crate::calibration::Calibration;
use crate::replay::{NetworkModel, ReplayError, Setting, replay};
use methods::Ground;
use traffic::Traffic;

/// How a placement was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// As the processes were.
    AsRun,
    /// One host filled after the other.
    Block,
    /// Round and round over the hosts.
    Cyclic,
    /// Whoever sends most to those that are placed, near them.
    Greedy,
    /// Halves of the processes that send each other little, on halves of the hosts.
    Bisection,
    /// Swaps of the best of these, judged by replays.
    Annealing,
}

impl Method {
    /// The number of methods that need no search: each placement of theirs is played once.
    pub const CONSTRUCTIVE: u64 = 5;

    /// Its name.
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

/// A placement, and how long the program takes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// How it was found.
    pub method: Method,
    /// The host of each process, in the program's order.
    pub hosts: Vec<u32>,
    /// From the first call's entry to the last's return, in picoseconds.
    pub total_ps: u64,
    /// Frames times latency, summed over pairs of processes, in picoseconds.
    pub weight_ps: u64,
}

/// What a search may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Processes on each host, at most.
    pub slots: u32,
    /// Replays that annealing may judge by.
    pub tries: u32,
    /// Where chance comes from.
    pub seed: u64,
}

/// Placements of a program in a setting, those first with which it takes least; of equal ones the method that stands first.
///
/// Calls `each` after each placement that was tried, [`Method::CONSTRUCTIVE`] and [`Effort::tries`] times.
///
/// # Errors
/// As [`replay`], and when there are fewer slots than processes.
pub fn search(
    program: &Program,
    calibration: &Calibration,
    setting: &Setting,
    effort: Effort,
    mut each: impl FnMut(),
) -> Result<Vec<Placement>, ReplayError> {
    let (NetworkModel::Packet(topology, settings) | NetworkModel::Flow(topology, settings)) =
        &setting.network
    else {
        return Err(ReplayError::NoPlaces);
    };
    let processes = program.processes.len();
    let slots = u64::from(topology.hosts()) * u64::from(effort.slots);
    if slots < processes as u64 {
        return Err(ReplayError::Slots { processes, slots });
    }
    if processes == 0 {
        return Err(ReplayError::NoCalls);
    }
    let latencies = Latencies::new(topology.clone(), &settings.routes())?;
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

/// Changes a placement by swaps (S. Kirkpatrick, C. Gelatt, M. Vecchi, "Optimization by simulated annealing", 1983): what is better is kept, what is worse at
/// first sometimes, then ever less often.
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
        // A hundredth of the whole at first, nothing in the end.
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
