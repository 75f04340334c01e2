//! Dependencies between ranks: the times at which one provides data that another needs.
//!
//! A dependency is at the entry of the call that gives, whether or not the other one already waits. Called by the comparison of critical
//! paths.

use std::collections::{BTreeMap, BTreeSet};

use super::{CallKey, Truth};
use crate::job::{Form, OperationId};
use crate::kinds::Kinds;
use crate::simulate::meeting::needed;

/// The rank that needs, the rank that gives, and when it gives, in cycles.
pub(super) type Dependency = (u32, u32, u64);

impl Truth {
    /// True if a rank needs something that another one gives at this time.
    pub(crate) fn depends(&self, rank: u32, on: u32, at: u64) -> bool {
        self.dependencies.contains(&(rank, on, at))
    }

    /// True if a rank is in a call at this time.
    pub(crate) fn is_inside(&self, rank: u32, at: u64) -> bool {
        let mut calls = self.execution.calls.iter();
        calls.any(|call| {
            self.job.actors[call.actor].rank == rank
                && call.entry <= at
                && call.exit.is_none_or(|exit| at <= exit)
        })
    }

    /// All dependencies.
    pub(super) fn all_dependencies(&self, kinds: &Kinds) -> BTreeSet<Dependency> {
        let mut all = BTreeSet::new();
        for (send, receive) in self.pairs() {
            let ends = [send, receive].map(|side| (self.rank(side), self.given_at(side)));
            let [(from, sent), (to, posted)] = ends;
            all.extend([(to, from, sent), (from, to, posted)]);
            if !kinds.partition_times {
                all.insert((to, from, self.begun_at(send)));
            }
        }
        self.in_collectives(&mut all);
        let meetings = self.meetings();
        for (call, last) in &meetings {
            let others = meetings.iter().filter(|(_, other)| other == last);
            all.extend(others.map(|(other, _)| (call.0, other.0, other.2)));
        }
        self.in_epochs(&mut all);
        all
    }

    /// The time at which a side of a message is available: for a partitioned send, when its last partition is ready.
    pub(crate) fn given_at(&self, side: OperationId) -> u64 {
        let ready = self.execution.calls.iter().filter(|executed| {
            let call = &self.job.actors[executed.actor].calls[executed.call];
            matches!(call.form, Form::Ready(_)) && call.operations.contains(&side)
        });
        let last = ready.map(|executed| executed.entry).max();
        last.unwrap_or_else(|| self.begun_at(side))
    }

    fn in_collectives(&self, all: &mut BTreeSet<Dependency>) {
        for parts in self.parts_by_instance().values() {
            for part in parts {
                let needed = needed(&self.job, *part);
                let others = parts
                    .iter()
                    .filter(|other| *other != part && needed.contains(&self.rank(**other)));
                let rank = self.rank(*part);
                all.extend(others.map(|other| (rank, self.rank(*other), self.begun_at(*other))));
            }
        }
    }

    /// Blocking calls of one collective operation, with the cycles that they wait for data.
    pub(crate) fn collective_waits(&self, kinds: &Kinds) -> Vec<(CallKey, u64)> {
        let parts = self.parts_by_instance();
        let (whole, _) = self.instances();
        let calls = self.execution.calls.iter().filter(|it| it.exit.is_some());
        let waits = calls.filter_map(|executed| {
            let actor = &self.job.actors[executed.actor];
            let call = &actor.calls[executed.call];
            let ([part], Form::Blocking) = (call.operations.as_slice(), call.form) else {
                return None;
            };
            let of = &self.job.operations[*part];
            let instance = of.instance()?;
            let between = self.job.communicators[of.communicator].first.is_some();
            let compared = match of.is_of_neighbors() {
                true => kinds.neighbor_waits,
                false => kinds.waits_between || !between,
            };
            // An operation that a member never enters is counted alone, and one in a graph as unresolved.
            if !compared || !whole.contains(&instance) || self.is_among_unknown(instance) {
                return None;
            }
            let needed = needed(&self.job, *part);
            let others = parts.get(&instance)?.iter();
            let others = others.filter(|other| needed.contains(&self.rank(**other)));
            let last = others.map(|other| self.begun_at(*other)).max();
            let key = (actor.rank, actor.thread, executed.entry);
            Some((key, last.unwrap_or(0).saturating_sub(executed.entry)))
        });
        waits.collect()
    }

    fn parts_by_instance(&self) -> BTreeMap<usize, Vec<OperationId>> {
        let mut parts: BTreeMap<usize, Vec<OperationId>> = BTreeMap::new();
        for part in self.begun.values().flatten() {
            if let Some(instance) = self.job.operations[*part].instance() {
                parts.entry(instance).or_default().push(*part);
            }
        }
        parts
    }

    /// Posts that starts wait for, and completions that waits wait for.
    fn in_epochs(&self, all: &mut BTreeSet<Dependency>) {
        let windows = self.execution.calls.iter().filter_map(|executed| {
            let actor = &self.job.actors[executed.actor];
            match actor.calls[executed.call].form {
                Form::Window(window) => Some((window, actor.rank, executed.entry)),
                _ => None,
            }
        });
        let windows: Vec<_> = windows.collect();
        for (waiting, rank, _) in &windows {
            let Some(number) = waiting.awaits() else {
                continue;
            };
            let given = windows.iter().filter(|it| it.0.signals() == Some(number));
            all.extend(given.map(|(_, other, at)| (*rank, *other, *at)));
        }
    }
}
