//! Max-min fair rates, by filling: all flows' rates grow alike, and those on a link that is full stay as they are.
//!
//! When a flow begins or ends, only rates of those can change that share a link with it, or with one whose rate can change; the others are not
//! touched. Rates are bytes a picosecond. The order of all steps is by numbers, so sums are the same each time. Called by flows.

use std::collections::{BTreeMap, BTreeSet};

/// A flow's number.
type FlowId = u32;

/// What a link carried of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// Bytes.
    pub(super) bytes: f64,
}

#[derive(Clone, Debug)]
struct Flow {
    over: Vec<u32>,
    /// Bytes that have not left at `since`.
    rest: f64,
    since: u64,
    rate: f64,
}

/// Flows and the links that they share.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    capacities: Vec<f64>,
    /// By link, the flows on it.
    on: Vec<BTreeSet<FlowId>>,
    flows: BTreeMap<FlowId, Flow>,
    carried: Vec<Load>,
    /// Flows whose rates changed.
    changed: Vec<FlowId>,
}

/// The least rate: one byte a second.
const LEAST: f64 = 1e-12;

impl Sharing {
    /// Links of these capacities, in bytes a picosecond.
    pub(super) fn new(capacities: Vec<f64>) -> Self {
        Self {
            on: vec![BTreeSet::new(); capacities.len()],
            carried: vec![Load::default(); capacities.len()],
            capacities,
            flows: BTreeMap::new(),
            changed: Vec::new(),
        }
    }

    /// A flow of so many bytes begins.
    pub(super) fn begin(&mut self, now: u64, id: FlowId, over: Vec<u32>, bytes: f64) {
        for link in &over {
            self.on[*link as usize].insert(id);
            self.carried[*link as usize].bytes += bytes;
        }
        let flow = Flow {
            over,
            rest: bytes,
            since: now,
            rate: 0.0,
        };
        self.flows.insert(id, flow);
        self.share(now, vec![id]);
    }

    /// A flow ends.
    pub(super) fn end(&mut self, now: u64, id: FlowId) {
        let Some(flow) = self.flows.remove(&id) else {
            return;
        };
        let mut touched = BTreeSet::new();
        for link in &flow.over {
            let on = &mut self.on[*link as usize];
            on.remove(&id);
            touched.extend(on.iter().copied());
        }
        self.share(now, touched.into_iter().collect());
    }

    /// Says which flows have another rate since this was asked last: their numbers, their bytes that have not left, and their rates.
    pub(super) fn changed(&mut self, mut tell: impl FnMut(FlowId, f64, f64)) {
        for id in std::mem::take(&mut self.changed) {
            if let Some(flow) = self.flows.get(&id) {
                tell(id, flow.rest, flow.rate);
            }
        }
    }

    /// What each link carried.
    pub(super) fn carried(&self) -> &[Load] {
        &self.carried
    }

    /// All flows whose rates can depend on these, these included, and the links that they are on.
    fn connected(&self, from: Vec<FlowId>) -> (BTreeSet<FlowId>, BTreeSet<u32>) {
        let mut flows: BTreeSet<FlowId> = from.iter().copied().collect();
        let mut links = BTreeSet::new();
        let mut open = from;
        while let Some(id) = open.pop() {
            let over = self.flows.get(&id).map(|flow| flow.over.as_slice());
            for link in over.unwrap_or_default() {
                if self.capacities[*link as usize].is_infinite() || !links.insert(*link) {
                    continue;
                }
                let others = self.on[*link as usize].iter();
                open.extend(others.copied().filter(|other| flows.insert(*other)));
            }
        }
        (flows, links)
    }

    /// Gives these flows, and those that depend on them, their rates.
    fn share(&mut self, now: u64, from: Vec<FlowId>) {
        let (mut open, links) = self.connected(from);
        // What is left of each link, and how many flows want of it.
        let mut left: BTreeMap<u32, (f64, u32)> = BTreeMap::new();
        for link in links {
            let flows = self.on[link as usize].len() as u32;
            left.insert(link, (self.capacities[link as usize], flows));
        }
        while !open.is_empty() {
            let shares = left
                .iter()
                .filter(|(_, (_, flows))| *flows > 0)
                .map(|(link, (rest, flows))| (rest / f64::from(*flows), *link));
            let full = shares.min_by(|one, other| one.0.total_cmp(&other.0));
            let Some((share, full)) = full else {
                // Nothing bounds them.
                for id in std::mem::take(&mut open) {
                    self.set(now, id, 1e3);
                }
                break;
            };
            let share = share.max(LEAST);
            let done: Vec<FlowId> = self.on[full as usize]
                .iter()
                .copied()
                .filter(|id| open.remove(id))
                .collect();
            for id in done {
                for link in self.flows[&id].over.clone() {
                    if let Some((rest, flows)) = left.get_mut(&link) {
                        *rest = (*rest - share).max(0.0);
                        *flows -= 1;
                    }
                }
                self.set(now, id, share);
            }
        }
    }

    fn set(&mut self, now: u64, id: FlowId, rate: f64) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        if flow.rate.to_bits() == rate.to_bits() {
            return;
        }
        let gone = now.saturating_sub(flow.since) as f64 * flow.rate;
        flow.rest = (flow.rest - gone).max(0.0);
        flow.since = now;
        flow.rate = rate;
        self.changed.push(id);
    }
}
