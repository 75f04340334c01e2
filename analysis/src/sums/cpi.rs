//! Cycles per instruction, and their parts.
//!
//! CPI = core + caches + memory + idle + MPI, each in cycles per instruction executed outside MPI. This is the usual
//! sum for distributed programs, with a processor's waiting outside MPI as a separate part. Core is the remainder of
//! the time between calls, so the sum is exact to the cycle.

/// Cycles per instruction as text and as JSON.
mod render;

use std::collections::BTreeMap;

use belljar_trace::{Account, Event};
use serde::Serialize;

use belljar_job::{Communicators, ProcessKey};

/// Cycles per retired instruction in a run without a time model, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// The cycles ...
    pub cycles: u64,
    /// ... for this number of instructions; not zero.
    pub instructions: u64,
}

/// A part of the cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpiPart {
    /// In cycles.
    pub cycles: u64,
    /// The same per instruction outside MPI; 0 without instructions.
    pub per_instruction: f64,
}

/// Cycles per instruction of one process, or of all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpiStat {
    /// Its MPI program; `None` for the total, like the next two.
    pub job: Option<u32>,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: Option<u32>,
    /// Its node.
    pub node: Option<u32>,
    /// Instructions that its node retired between its MPI calls.
    pub instructions: u64,
    /// Time from the first call on, between calls and in them.
    pub total: CpiPart,
    /// Cycles in the core, between calls.
    pub core: CpiPart,
    /// Cycles in caches after the first level, between calls; `None` if caches are not modelled.
    pub caches: Option<CpiPart>,
    /// Cycles in memory, between calls; `None` if memory is not modelled.
    pub memory: Option<CpiPart>,
    /// Cycles without an instruction, between calls; `None` without a time model, where they are part of core.
    pub idle: Option<CpiPart>,
    /// Cycles in MPI calls.
    pub mpi: CpiPart,
}

/// Cycles per instruction of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpiStatistics {
    /// By process, in the order of jobs and ranks.
    pub ranks: Vec<CpiStat>,
    /// The total of all processes.
    pub all: CpiStat,
    /// The most processors that a node of the run has; 1 unless the caller sets it.
    #[serde(skip_serializing_if = "is_one")]
    pub processors: u32,
}

fn is_one(processors: &u32) -> bool {
    *processors == 1
}

/// Sums of a process's cycles.
#[derive(Clone, Copy, Debug, Default)]
struct CycleSums {
    rank: u32,
    between: u64,
    mpi: u64,
    account: Account,
}

/// The cycles of a process.
#[derive(Debug, Default)]
struct ProcessCycles {
    sums: CycleSums,
    /// For each thread, the return of its last call, and the node's account then.
    left: BTreeMap<u32, (u64, Account)>,
}

/// Gathers [`CpiStatistics`] from the events of a trace, in its order.
#[derive(Debug)]
pub struct CpiCollector<'a> {
    communicators: &'a Communicators,
    /// `None` if the events contain accounts.
    ratio: Option<Ratio>,
    processes: BTreeMap<ProcessKey, ProcessCycles>,
    has_caches: bool,
}

impl<'a> CpiCollector<'a> {
    /// Creates an empty collector. If events have no accounts, instructions are computed from cycles by `ratio`.
    pub fn new(communicators: &'a Communicators, ratio: Option<Ratio>) -> Self {
        Self {
            communicators,
            ratio,
            processes: BTreeMap::new(),
            has_caches: false,
        }
    }

    /// Adds an event. Unselected calls, and calls made by the MPI implementation, are ignored.
    pub fn observe(&mut self, event: &Event) {
        if !event.selected || event.depth > 0 {
            return;
        }
        let [entered, returned] = event.accounts.0.unwrap_or_default();
        // The first access of all goes to memory.
        self.has_caches |= returned.memory > 0;
        let key = (event.node, event.process);
        let process = self.processes.entry(key).or_default();
        let sums = &mut process.sums;
        sums.rank = event.rank;
        let left = process.left.remove(&event.thread);
        if let Some((left, account)) = left.filter(|(left, _)| *left <= event.entry) {
            sums.between = sums.between.saturating_add(event.entry - left);
            sums.account = sums.account.plus(&entered.since(&account));
        }
        if let Some(exit) = event.exit {
            let duration = event.duration().unwrap_or(0);
            sums.mpi = sums.mpi.saturating_add(duration);
            if let Some(polls) = &event.folded.0 {
                sums.between = sums.between.saturating_add(event.outside());
                let all = returned.since(&entered);
                sums.account = sums.account.plus(&all.since(&polls.account));
            }
            process.left.insert(event.thread, (exit, returned));
        }
    }

    /// Returns the statistics.
    pub fn finish(self) -> CpiStatistics {
        let mut all = CycleSums::default();
        let mut ranks = Vec::new();
        for (key, process) in &self.processes {
            let sums = process.sums;
            all.between = all.between.saturating_add(sums.between);
            all.mpi = all.mpi.saturating_add(sums.mpi);
            all.account = all.account.plus(&sums.account);
            let mut stat = self.stat(&sums);
            stat.job = Some(self.communicators.job(*key).unwrap_or(0));
            stat.rank = Some(sums.rank);
            stat.node = Some(key.0);
            ranks.push(stat);
        }
        ranks.sort_by_key(|stat| (stat.job, stat.rank, stat.node));
        let all = self.stat(&all);
        CpiStatistics {
            ranks,
            all,
            processors: 1,
        }
    }

    fn stat(&self, sums: &CycleSums) -> CpiStat {
        let Account {
            mut instructions,
            caches,
            memory,
            idle,
        } = sums.account;
        if let Some(Ratio {
            cycles,
            instructions: each,
        }) = self.ratio
        {
            let retired = u128::from(sums.between) * u128::from(each) / u128::from(cycles.max(1));
            instructions = u64::try_from(retired).unwrap_or(u64::MAX);
        }
        let part = |cycles: u64| CpiPart {
            cycles,
            per_instruction: if instructions == 0 {
                0.0
            } else {
                cycles as f64 / instructions as f64
            },
        };
        let elsewhere = caches.saturating_add(memory).saturating_add(idle);
        CpiStat {
            job: None,
            rank: None,
            node: None,
            instructions,
            total: part(sums.between.saturating_add(sums.mpi)),
            core: part(sums.between.saturating_sub(elsewhere)),
            caches: self.has_caches.then(|| part(caches)),
            memory: self.has_caches.then(|| part(memory)),
            idle: self.ratio.is_none().then(|| part(idle)),
            mpi: part(sums.mpi),
        }
    }
}

#[cfg(test)]
mod tests;
