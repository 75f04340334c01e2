//! Balance of computing between threads in a loop.
//!
//! Computing is a thread's time in a loop outside MPI. Loops of all classes are merged here if their headers, and those of the loops
//! around them, call the same functions. Threads at an edge have other partners, and so other graphs, but the same loops. The percentage
//! is defined by L. DeRose, B. Homer and D. Johnson, "Detecting application load imbalance on high end massively parallel systems"
//! (Euro-Par 2007). Computed from the finished tree; used by `loops`.

use std::collections::BTreeMap;

use belljar_sim::figures::significant;
use serde::Serialize;

use super::{ClassLoops, LoopPart, ProgramPart};
use crate::structure::flow::FlowThread;
use crate::sums::stat::DIGITS;

/// Computing of a loop's threads. Times are virtual, in picoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopBalance {
    /// The functions of the headers of the loops around it and of its own header, from the outside.
    pub path: Vec<&'static str>,
    /// Threads that run the loop.
    pub threads: u64,
    /// The minimum computing time of a thread.
    pub min_ps: u64,
    /// The mean, rounded down.
    pub mean_ps: u64,
    /// The maximum.
    pub max_ps: u64,
    /// The thread that computes most; in a tie, the first.
    pub most: FlowThread,
    /// The maximum minus the mean: the time that perfect balance would save.
    pub imbalance_ps: u64,
    /// The share of the other threads' time that is wasted: 0 if all compute equally, 100 if one alone computes.
    pub imbalance_percent: f64,
}

/// Returns the balance of each loop of `classes`, in descending order of the time to save.
pub(super) fn of(classes: &[ClassLoops]) -> Vec<LoopBalance> {
    let mut found = BTreeMap::new();
    for class in classes {
        add(&class.body, &mut Vec::new(), &mut found);
    }
    let mut all: Vec<LoopBalance> = found
        .into_iter()
        .filter_map(|(path, threads)| balance(path, &threads))
        .collect();
    // Ties are in the order of their paths.
    all.sort_by_key(|one| std::cmp::Reverse(one.imbalance_ps));
    all
}

type Found = BTreeMap<Vec<&'static str>, BTreeMap<FlowThread, u64>>;

fn add(body: &[ProgramPart], path: &mut Vec<&'static str>, found: &mut Found) {
    let loops = body.iter().filter_map(|part| match part {
        ProgramPart::Loop(part) => Some(part),
        ProgramPart::Sequence(_) => None,
    });
    for part in loops {
        path.push(part.function);
        let threads = found.entry(path.clone()).or_default();
        // A thread may run several loops of one path.
        for (thread, time) in computing(part) {
            let sum = threads.entry(thread).or_default();
            *sum = sum.saturating_add(time);
        }
        add(&part.body, path, found);
        path.pop();
    }
}

fn computing(part: &LoopPart) -> impl Iterator<Item = (FlowThread, u64)> {
    part.computing.iter().copied()
}

fn balance(path: Vec<&'static str>, threads: &BTreeMap<FlowThread, u64>) -> Option<LoopBalance> {
    let count = threads.len() as u64;
    // In a tie, the first.
    let (most, max) = threads.iter().rev().max_by_key(|(_, time)| **time)?;
    let total: u128 = threads.values().map(|time| u128::from(*time)).sum();
    let mean = (total / u128::from(count)) as u64;
    let imbalance_ps = max - mean;
    let share = imbalance_ps as f64 / (*max).max(1) as f64;
    let others = count as f64 / count.saturating_sub(1).max(1) as f64;
    Some(LoopBalance {
        path,
        threads: count,
        min_ps: threads.values().copied().min().unwrap_or(0),
        mean_ps: mean,
        max_ps: *max,
        most: *most,
        imbalance_ps,
        imbalance_percent: significant((100.0 * share * others).min(100.0), DIGITS),
    })
}
