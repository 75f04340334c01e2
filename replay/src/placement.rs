//! Search for placements of ranks.
//!
//! A placement assigns a host to each process; each host has a number of slots. Constructive methods use the traffic between ranks and the latencies of routes:
//! the *weight* of a placement is the sum over pairs of frames times the route's latency. [`search`] plays each method's placement, and improves the best one by
//! simulated annealing with swaps, evaluated by replays on all processors. All random numbers come from a seed, so a search is reproducible. Used by `belljar place`.

/// Methods that need no replay.
mod methods;
/// Traffic between ranks.
mod traffic;

use belljar_networks::Latencies;
use belljar_program::Program;
use belljar_sim::{Random, Seed};
use serde::Serialize;

use crate::calibration::Calibration;
use crate::replay::parallel::{self, processors};
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
    let judge = Judge {
        program,
        calibration,
        setting,
        threads: processors(),
    };
    judge.search(effort, &mut each)
}

/// Plays placements.
#[derive(Clone, Copy)]
struct Judge<'a> {
    program: &'a Program,
    calibration: &'a Calibration,
    setting: &'a Setting,
    /// Threads that play at once.
    threads: usize,
}

impl Judge<'_> {
    fn search(self, effort: Effort, each: &mut dyn FnMut()) -> Result<Vec<Placement>, ReplayError> {
        let (program, setting) = (self.program, self.setting);
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
        let mut made = vec![
            (Method::AsRun, setting.hosts.clone()),
            (Method::Block, ground.block()),
            (Method::Cyclic, ground.cyclic()),
            (Method::Greedy, ground.greedy()),
            (Method::Bisection, ground.bisection()),
        ];
        made.retain(|(_, hosts)| ground.fits(hosts));
        let mut placements = Vec::new();
        for some in made.chunks(self.threads.max(1)) {
            let hosts: Vec<&[u32]> = some.iter().map(|(_, hosts)| &hosts[..]).collect();
            for ((method, hosts), total_ps) in some.iter().zip(self.totals(&hosts)) {
                placements.push(Placement {
                    method: *method,
                    total_ps: total_ps?,
                    weight_ps: ground.weight(hosts),
                    hosts: hosts.clone(),
                });
                each();
            }
        }
        (made.len() as u64..Method::CONSTRUCTIVE).for_each(|_| each());
        placements.sort_by_key(|placement| (placement.total_ps, placement.method));
        if let Some(best) = placements.first().cloned() {
            placements.push(self.anneal(&mut ground, &best, effort, each)?);
            placements.sort_by_key(|placement| (placement.total_ps, placement.method));
        }
        Ok(placements)
    }

    /// Returns the program's duration with each placement.
    fn totals(self, placements: &[&[u32]]) -> Vec<Result<u64, ReplayError>> {
        parallel::map(self.threads, placements.len(), |number| {
            let setting = Setting {
                hosts: placements[number].to_vec(),
                ..self.setting.clone()
            };
            let outcome = replay(self.program, self.calibration, &setting, || true)?;
            Ok(outcome.total_ps)
        })
    }

    /// Changes a placement by swaps (S. Kirkpatrick, C. Gelatt, M. Vecchi, "Optimization by simulated annealing", 1983): improvements are kept, deteriorations
    /// sometimes at first, then ever less often.
    ///
    /// Several threads play the next turns at once, as they would follow if no swap were kept. After the first kept one, the others are dropped, so the result is that
    /// of one turn after the other. The number of turns at once is at most one more than the number of latest turns that kept none, so few plays are dropped.
    fn anneal(
        self,
        ground: &mut Ground<'_>,
        from: &Placement,
        effort: Effort,
        each: &mut dyn FnMut(),
    ) -> Result<Placement, ReplayError> {
        let mut random = Random::new(Seed(effort.seed), "placement", 0);
        let (mut now, mut best) = (from.clone(), from.clone());
        let (mut turn, mut kept_none) = (0, 0);
        while turn < effort.tries {
            let ahead = proposals(
                ground,
                &now.hosts,
                &random,
                effort.tries - turn,
                self.threads.min(kept_none + 1),
            );
            let changed = ahead.iter().filter_map(|it| it.hosts.as_deref());
            let mut totals = self.totals(&changed.collect::<Vec<_>>()).into_iter();
            for proposal in ahead {
                each();
                turn += 1;
                random = proposal.random;
                let Some(hosts) = proposal.hosts else {
                    continue;
                };
                let Some(total_ps) = totals.next().transpose()? else {
                    break;
                };
                let worse = total_ps.saturating_sub(now.total_ps) as f64;
                // A hundredth of the whole at first, zero in the end.
                let heat = from.total_ps as f64 / 100.0 * f64::from(effort.tries - turn)
                    / f64::from(effort.tries);
                if worse <= 0.0 || heat > 0.0 && proposal.chance < (-worse / heat).exp() {
                    kept_none = 0;
                    now = Placement {
                        method: Method::Annealing,
                        weight_ps: ground.weight(&hosts),
                        total_ps,
                        hosts,
                    };
                    break;
                }
                kept_none += 1;
            }
            if now.total_ps < best.total_ps {
                best = now.clone();
            }
        }
        best.method = Method::Annealing;
        Ok(best)
    }
}

/// A turn of annealing.
struct Proposal {
    /// The placement after the swap; `None` if it is the same.
    hosts: Option<Vec<u32>>,
    /// A random number from 0 to 1, which decides about a deterioration.
    chance: f64,
    /// The generator after this turn.
    random: Random,
}

/// Returns the next turns, of `most`, up to the one with the `plays`th change of the placement, if the placement stays.
fn proposals(
    ground: &Ground<'_>,
    now: &[u32],
    random: &Random,
    most: u32,
    plays: usize,
) -> Vec<Proposal> {
    let mut random = random.clone();
    let mut changes = 0;
    let mut all = Vec::new();
    for _ in 0..most {
        let hosts = Some(ground.swapped(now, &mut random)).filter(|hosts| hosts != now);
        let chance = match hosts {
            Some(_) => random.next_u64() as f64 / u64::MAX as f64,
            None => 0.0,
        };
        changes += usize::from(hosts.is_some());
        all.push(Proposal {
            hosts,
            chance,
            random: random.clone(),
        });
        if changes >= plays.max(1) {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests;
