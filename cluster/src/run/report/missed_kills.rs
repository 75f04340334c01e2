//! Kills of ranks by the scenario that met no process.
//!
//! The node's init finds the processes of a rank by their environment and does not answer. The tracer knows the processes that have begun MPI, and the statuses with
//! which they ended. A kill that ended none of them may have met none, and is reported. Called for a node's report.

use std::collections::BTreeMap;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::run::runner::Runner;

/// Signal 9, as `wait` returns it for a process that it ended.
const KILLED: u32 = 9;
/// The bits of a status with the signal.
const SIGNAL: u32 = 0x7f;
/// Time that a node's init needs for a kill, with a margin.
const TAKES: Span = Span::from_ms(10);

/// A kill that met no process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedKill {
    /// Virtual time of the kill, in picoseconds.
    pub at_ps: u64,
    /// The rank; `None` for all ranks of the node.
    pub rank: Option<u32>,
    /// True if the run ended before the kill.
    pub is_late: bool,
}

impl MissedKill {
    /// A warning for users; `node` is the node. `None` for a kill after the end of the run, which is reported with all such delays.
    pub(super) fn warning(&self, node: u32) -> Option<String> {
        let at = Time::from_ps(self.at_ps);
        let ranks = match self.rank {
            Some(rank) => format!("process of rank {rank}"),
            None => "process of a rank".to_owned(),
        };
        (!self.is_late).then(|| {
            format!(
                "node {node}: nodes.fail of kind \"kill\" at {at}: no {ranks} was between MPI_Init and its end, so it may have had no effect; check its at, node and rank"
            )
        })
    }
}

/// The kills of a node that met no process, at the end of its run. Without a trace only those after the end of the run are known.
pub(super) fn of(runner: &Runner) -> Vec<MissedKill> {
    let now = runner.node().now();
    let missed = runner.kills.iter().filter_map(|&(at, rank)| {
        let is_late = at > now;
        let is_missed = is_late || (at + TAKES <= now && !met(runner, at, rank));
        let at_ps = at.as_ps();
        is_missed.then_some(MissedKill {
            at_ps,
            rank,
            is_late,
        })
    });
    missed.collect()
}

/// True if a process of `rank` that existed at `at` ended by the signal, or if the processes are unknown.
fn met(runner: &Runner, at: Time, rank: Option<u32>) -> bool {
    let Some(tracer) = runner.tracer() else {
        return true;
    };
    let active = tracer.active_processes().into_iter();
    let mut ends: BTreeMap<u32, Option<u32>> = active.map(|it| (it.process, it.end)).collect();
    ends.extend(tracer.gone_processes());
    let frequency = runner.node().frequency();
    tracer.processes().iter().any(|process| {
        let is_meant = rank.is_none_or(|rank| rank == process.rank);
        let exists = frequency.time_of(process.start) <= at;
        let end = ends.get(&process.process).copied().flatten();
        is_meant && exists && end.is_some_and(|status| status & SIGNAL == KILLED)
    })
}
