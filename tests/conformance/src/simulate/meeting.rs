//! Parts in collective operations, and other calls that wait for all ranks.
//!
//! An operation ends for a rank when the ranks that it needs have come. Called by the simulation at each entry.

use std::collections::BTreeMap;

use super::rank_of;
use crate::job::{Action, Collective, Job, OperationId};

/// Cycles from the last that an operation needs to its end.
const AFTER: u64 = 900;

/// Collective operations and other calls of all ranks in progress.
#[derive(Debug, Default)]
pub(super) struct Meetings {
    /// By instance, its parts and when they began.
    parts: BTreeMap<usize, Vec<(OperationId, u64)>>,
    /// Times of arrival at each call of all ranks, by the call's number.
    makers: BTreeMap<usize, Vec<u64>>,
}

impl Meetings {
    /// A member takes part; the parts that are over once it does, and when.
    pub(super) fn join(
        &mut self,
        job: &Job,
        instance: usize,
        operation: OperationId,
        at: u64,
    ) -> Vec<(OperationId, u64)> {
        let parts = self.parts.entry(instance).or_default();
        parts.push((operation, at));
        let here = |rank: &u32| {
            let own =
                |(part, _): &&(OperationId, u64)| rank_of(job, &job.operations[*part]) == *rank;
            parts.iter().find(own).map(|(_, at)| *at)
        };
        let ends = parts.iter().filter_map(|(part, at)| {
            let needed = needed(job, *part);
            let last = needed
                .iter()
                .try_fold(*at, |last, rank| Some(last.max(here(rank)?)));
            Some((*part, last? + AFTER))
        });
        ends.collect()
    }

    /// A rank begins a call of all ranks.
    pub(super) fn come_to(&mut self, meeting: usize, at: u64) {
        self.makers.entry(meeting).or_default().push(at);
    }

    /// When a wait for a number is over that one rank gives.
    pub(super) fn signalled(&self, number: usize) -> Option<u64> {
        let given = self.makers.get(&number)?.first();
        given.map(|at| at + AFTER)
    }

    /// When a call of all ranks is over, once all of them came.
    pub(super) fn made(&self, job: &Job, meeting: usize) -> Option<u64> {
        let makers = self.makers.get(&meeting)?;
        let all = makers.len() == job.ranks as usize;
        all.then(|| makers.iter().max().map_or(0, |last| last + AFTER))
    }
}

/// The ranks without which a part in a collective operation is not over.
pub(crate) fn needed(job: &Job, part: OperationId) -> Vec<u32> {
    let operation = &job.operations[part];
    let Action::Collective {
        operation: kind,
        root,
        ..
    } = operation.action
    else {
        return Vec::new();
    };
    let own = rank_of(job, operation);
    let members = job.communicators[operation.communicator].partners(own);
    match kind {
        _ if kind.is_neighborhood() => {
            let [sources, _] = job.communicators[operation.communicator].neighbors(own);
            sources.into_iter().flatten().collect()
        }
        // Between groups, members of the root's group wait for no one.
        Collective::Bcast | Collective::Scatter | Collective::Scatterv => {
            let root = members.iter().filter(|member| **member == root);
            root.copied().collect()
        }
        Collective::Reduce | Collective::Gather | Collective::Gatherv => match own == root {
            true => members.to_vec(),
            false => Vec::new(),
        },
        Collective::Scan | Collective::Exscan => {
            let before = members.iter().take_while(|member| **member != own);
            before.copied().collect()
        }
        _ => members.to_vec(),
    }
}
