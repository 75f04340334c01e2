//! Deduction of the channels of wildcard receives without a status.
//!
//! A program that passes `MPI_STATUS_IGNORE` has no status, and traces before version 14 have no observed match. The
//! message can be deduced once every send is known that was called before the receive was complete. Candidates come from
//! each thread of a sender: the first message that the receive accepts and that no earlier receive got (MPI-4.0, 3.5). It
//! must have been sent before the receive was complete, in a channel with more messages than later receives got from it. A
//! single candidate is the match. With several, or if the receive may have been cancelled, it is lost and their channels
//! are doubtful. Called periodically, and at the end.

use std::collections::{BTreeMap, VecDeque};

use super::{Channel, Matcher, Place, Posted, ReceiveSelector, bounds, channel, lost};
use crate::communicators::Member;
use crate::operations::fact::{Fact, Loss};

/// Receives that wait at a process for a wildcard receive of unknown match.
const MOST_OPEN: usize = 1 << 12;

/// The number of messages in each channel that later receives got.
type Demand = BTreeMap<Channel, usize>;

impl Matcher {
    /// Deduces the channels of receives that were complete before `horizon`: all sends that were called before it are
    /// known. At the `end` no event follows, and receives with several candidates are lost.
    pub(crate) fn settle(&mut self, horizon: u64, end: bool, facts: &mut Vec<Fact>) {
        for place in std::mem::take(&mut self.untold) {
            self.settle_at(place, horizon, end, facts);
        }
    }

    fn settle_at(&mut self, place: Place, horizon: u64, end: bool, facts: &mut Vec<Fact>) {
        let posted = self.posted.remove(&place).unwrap_or_default();
        let mut demand = demand(place, &posted);
        let mut open: VecDeque<Posted> = VecDeque::new();
        let many = posted.len() > MOST_OPEN;
        for receive in posted {
            let free = |channel: &Channel| {
                let mut before = open.iter();
                !before.any(|before| may_get(before, channel.from, channel.tag))
            };
            let got = receive.got.filter(|_| !receive.perhaps_cancelled);
            if let Some((from, tag)) = got {
                let channel = channel(place, from, tag);
                if !free(&channel) {
                    open.push_back(receive);
                    continue;
                }
                if receive.ended.is_some()
                    && let Some(left) = demand.get_mut(&channel)
                {
                    *left -= 1;
                }
                self.take(channel, receive.operation, facts);
                continue;
            }
            let Some(at) = receive.ended.filter(|at| end || *at < horizon) else {
                open.push_back(receive);
                continue;
            };
            let uncertain = receive.perhaps_cancelled;
            let candidates = self.candidates(place, receive.wanted, at, &demand);
            match candidates[..] {
                [channel]
                    if !uncertain && free(&channel) && !self.is_doubtful(place, receive.wanted) =>
                {
                    self.take(channel, receive.operation, facts);
                }
                _ if end || many || uncertain || candidates.is_empty() => {
                    facts.push(lost(receive.operation, Loss::Ambiguous));
                    for channel in candidates {
                        self.doubt(channel, Loss::Doubtful, facts);
                    }
                }
                _ => open.push_back(receive),
            }
        }
        let untold = |it: &Posted| it.ended.is_some() && (it.got.is_none() || it.perhaps_cancelled);
        if open.iter().any(untold) {
            self.untold.insert(place);
        }
        if !open.is_empty() {
            self.posted.insert(place, open);
        }
    }

    /// True if the receive may have taken a message of a doubtful channel.
    fn is_doubtful(&self, place: Place, wanted: ReceiveSelector) -> bool {
        let [first, last] = bounds(place);
        let mut doubtful = self.doubtful.range(first..=last);
        doubtful.any(|channel| wanted.takes(channel.from, channel.tag))
    }

    /// The channels whose next message a receive may have got that was complete at `at`.
    fn candidates(
        &self,
        place: Place,
        wanted: ReceiveSelector,
        at: u64,
        demand: &Demand,
    ) -> Vec<Channel> {
        let [mut first, mut last] = bounds(place);
        if let Some(from) = wanted.from {
            (first.from, last.from) = (from, from);
            if let Some(tag) = wanted.tag {
                (first.tag, last.tag) = (tag, tag);
            }
        }
        let heads = self
            .channels
            .range(first..=last)
            .filter_map(|(channel, queues)| {
                let first = queues.sends.front()?;
                let left = queues.sends.len() > demand.get(channel).copied().unwrap_or(0);
                let takes = wanted.takes(channel.from, channel.tag);
                takes.then_some((*channel, *first, left && first.at < at))
            });
        let mut heads: Vec<_> = heads.collect();
        // Of each thread of a sender the first message: others cannot overtake it.
        heads.sort_by_key(|(channel, first, _)| (channel.from, first.thread, first.operation));
        heads.dedup_by_key(|(channel, first, _)| (channel.from, first.thread));
        heads.retain(|(_, _, possible)| *possible);
        heads.into_iter().map(|(channel, _, _)| channel).collect()
    }
}

/// True if a receive may get a message of this sender and tag.
fn may_get(receive: &Posted, from: Member, tag: i32) -> bool {
    match receive.got {
        Some(got) => got == (from, tag),
        None => receive.wanted.takes(from, tag),
    }
}

/// The number of messages in each channel that complete receives got.
fn demand(place: Place, posted: &VecDeque<Posted>) -> Demand {
    let mut demand = Demand::new();
    let complete = posted.iter();
    let complete = complete.filter(|own| own.ended.is_some() && !own.perhaps_cancelled);
    for (from, tag) in complete.filter_map(|receive| receive.got) {
        *demand.entry(channel(place, from, tag)).or_default() += 1;
    }
    demand
}
