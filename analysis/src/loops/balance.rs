//! How evenly threads compute in a loop.
//!
//! Computing is what a thread does in a loop outside MPI. Loops of all classes are one here if the functions with which they and
//! the loops around them begin are the same: threads at an edge have other partners, and so graphs of their own, but the same loops. The
//! percentage is that of L. DeRose, B. Homer and D. Johnson, "Detecting application load imbalance on high end massively
//! parallel systems" (Euro-Par 2007). Made of the finished tree; called by `loops`.

use std::collections::BTreeMap;

use belljar_sim::figures::significant;
use serde::Serialize;

use super::{ClassLoops, LoopPart, Part};
use crate::flow::FlowThread;
use crate::stat::DIGITS;

/// Computing of the threads that go through a loop. Times are virtual, in picoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopBalance {
    /// The functions with which the loops around it and it begin, from the outside.
    pub path: Vec<&'static str>,
    /// Threads that go through it.
    pub threads: u64,
    /// The least that one computes.
    pub min_ps: u64,
    /// The mean, cut.
    pub mean_ps: u64,
    /// The most.
    pub max_ps: u64,
    /// Who computes most; of several the first.
    pub most: FlowThread,
    /// The most less the mean: what could be saved if all computed equally.
    pub imbalance_ps: u64,
    /// What share of the others' time that wastes: 0 if all compute equally, 100 if one alone computes.
    pub imbalance_percent: f64,
}

/// The balance of each loop of `classes`, those with most to save first.
pub(super) fn of(classes: &[ClassLoops]) -> Vec<LoopBalance> {
    let mut found = BTreeMap::new();
    for class in classes {
        add(&class.body, &mut Vec::new(), &mut found);
    }
    let mut all: Vec<LoopBalance> = found
        .into_iter()
        .filter_map(|(path, threads)| balance(path, &threads))
        .collect();
    // Equal ones in the order of their paths.
    all.sort_by_key(|one| std::cmp::Reverse(one.imbalance_ps));
    all
}

type Found = BTreeMap<Vec<&'static str>, BTreeMap<FlowThread, u64>>;

fn add(body: &[Part], path: &mut Vec<&'static str>, found: &mut Found) {
    let loops = body.iter().filter_map(|part| match part {
        Part::Loop(part) => Some(part),
        Part::Sequence(_) => None,
    });
    for part in loops {
        path.push(part.function);
        let threads = found.entry(path.clone()).or_default();
        // A thread may go through several loops of one path.
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
    // Of several, the first.
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
