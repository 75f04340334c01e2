//! Runs with random detours of processors.
//!
//! The search for orders of messages changes nothing within a node. Detours do: a thread of one processor stops between two instructions, and the others run on. A data
//! race between threads, or between ranks of a node with shared memory, then gives another result. Each run has a few detours and no other change of the base run. Called
//! by `explore`, before the orders.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use belljar_archive::TraceReader;
use belljar_cluster::plan::Plan;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::{Scenario, of_run_directory};
use belljar_files::read_input_text;
use belljar_mpi::Boundary;
use belljar_orders::{DetourRange, ForcedDelay, RankPart};
use belljar_replay::{map_in_parallel, processors};
use belljar_sim::{Random, Seed};
use belljar_trace::TRACE_FILE;
use serde::Serialize;

use super::arguments::Budget;
use super::table::words;
use super::{Exploration, MOST_AT_ONCE};
use crate::command::terminal::interrupt::Deferral;
use crate::command::terminal::progress::TerminalTask;

/// The runs with random detours.
#[derive(Debug, Serialize)]
pub(super) struct DetourOutcome {
    /// Number of runs.
    pub(super) runs: usize,
    /// Runs that the budget did not permit.
    pub(super) left: usize,
    /// The reason, if there was no run.
    pub(super) skipped: Option<&'static str>,
}

impl Exploration {
    /// Carries out `wanted` runs with random detours drawn from `seed`, until the budget or the user ends it.
    pub(super) fn detour(
        &mut self,
        wanted: usize,
        seed: u64,
        budget: Budget,
        deferral: &Deferral,
    ) -> Result<Option<DetourOutcome>> {
        if wanted == 0 {
            return Ok(None);
        }
        let skipped = |reason| DetourOutcome {
            runs: 0,
            left: wanted,
            skipped: Some(reason),
        };
        let Some(base) = self.runs.get(&0).filter(|run| !run.verdict.fails()) else {
            return Ok(Some(skipped("the base run fails without a detour")));
        };
        let range = range(&base.directory)?;
        if range.is_empty() {
            return Ok(Some(skipped(
                "the base run has no rank between MPI_Init and MPI_Finalize",
            )));
        }
        let mut random = Random::new(Seed(seed), "detours", 0);
        let task = TerminalTask::of_steps("detours", Some(wanted as u64));
        let mut runs = 0;
        while runs < wanted && !deferral.is_wanted() {
            let room = self.room(budget).min(MOST_AT_ONCE).min(wanted - runs);
            if room == 0 {
                break;
            }
            let drawn = (0..room).map(|_| named(range.draw(|| random.next_u64())));
            let drawn: Vec<Vec<ForcedDelay>> = drawn.collect();
            let session = &self.session;
            let ended = map_in_parallel(processors(), room, |at| {
                let name = format!("detour-{}", runs + at + 1);
                session.carry_out(&name, &drawn[at], None)
            });
            for run in ended {
                if run.is_err() && deferral.is_wanted() {
                    // The signal ended the run, too.
                    break;
                }
                self.take(run?)?;
                runs += 1;
                task.step();
            }
        }
        Ok(Some(DetourOutcome {
            runs,
            left: wanted - runs,
            skipped: None,
        }))
    }
}

impl DetourOutcome {
    /// As text.
    pub(super) fn write(&self, out: &mut String, end: &str) {
        if let Some(reason) = self.skipped {
            let _ = writeln!(out, "warning: no run had random detours: {reason}");
            return;
        }
        let _ = writeln!(out, "{} of the runs had random detours", self.runs);
        if self.left > 0 {
            let left = self.left;
            let _ = writeln!(
                out,
                "warning: {end}; {left} runs with random detours are left"
            );
        }
    }
}

/// The detours with their words as purposes.
fn named(mut detours: Vec<ForcedDelay>) -> Vec<ForcedDelay> {
    for detour in &mut detours {
        detour.purpose = vec![words(detour)];
    }
    detours
}

/// The parts of all ranks of the run in `directory` from the end of `MPI_Init` to the begin of `MPI_Finalize`.
fn range(directory: &Path) -> Result<DetourRange> {
    let path = directory.join(SCENARIO_FILE);
    let text = read_input_text(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let scenario = Scenario::parse(&path, &of_run_directory(text), &[])?;
    let plan = Plan::resolve(&scenario, &path)?;
    let mut reader = TraceReader::open(&directory.join(TRACE_FILE))?;
    let header = reader.header().clone();
    // By process: the times at which calls begin and end.
    let mut ranks: BTreeMap<(u32, u32), RankTimes> = BTreeMap::new();
    for event in reader.by_ref().filter(|event| event.depth == 0) {
        let ps = |cycles| header.frequency(event.node).time_of(cycles).as_ps();
        let own = ranks.entry((event.node, event.process)).or_default();
        match event.meaning().boundary() {
            Some(Boundary::Start) => own.begin_ps = event.exit.map(ps),
            Some(Boundary::End) => own.end_ps = Some(ps(event.entry)),
            None => own
                .times
                .extend(event.exit.map(|exit| [ps(event.entry), ps(exit)])),
        }
    }
    let parts = ranks
        .into_iter()
        .flat_map(|((node, _), own)| own.parts(node));
    Ok(DetourRange::new(parts.collect(), |node| {
        plan.kind_of(node).vcpus
    }))
}

/// Times of a rank, in picoseconds.
#[derive(Debug, Default)]
struct RankTimes {
    /// Its `MPI_Init` has ended.
    begin_ps: Option<u64>,
    /// Its `MPI_Finalize` begins.
    end_ps: Option<u64>,
    /// Entry and exit of its calls.
    times: Vec<[u64; 2]>,
}

impl RankTimes {
    /// Its calls and the parts between them, on this node.
    fn parts(self, node: u32) -> Vec<RankPart> {
        let (Some(begin), Some(end)) = (self.begin_ps, self.end_ps) else {
            return Vec::new();
        };
        let within = self.times.into_iter().flatten();
        let within = within.filter(|time| (begin..end).contains(time));
        let mut times: Vec<u64> = within.chain([begin, end]).collect();
        times.sort_unstable();
        let pairs = times.windows(2).map(|pair| RankPart {
            node,
            begin_ps: pair[0],
            end_ps: pair[1],
        });
        pairs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_calls_and_the_program_between_them() {
        let own = RankTimes {
            begin_ps: Some(10),
            end_ps: Some(50),
            times: vec![[1, 10], [20, 30], [55, 60]],
        };
        let parts = own.parts(3);
        let spans: Vec<(u64, u64)> = parts.iter().map(|it| (it.begin_ps, it.end_ps)).collect();
        assert_eq!(spans, [(10, 10), (10, 20), (20, 30), (30, 50)]);
        let hung = RankTimes {
            begin_ps: Some(10),
            ..RankTimes::default()
        };
        assert_eq!(hung.parts(3), []);
    }
}
