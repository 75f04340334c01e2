//! What receives with wildcards got that asked for no status.
//!
//! A program that passes `MPI_STATUS_IGNORE` is not told, and nothing may be changed for it, as a status that is written
//! takes instructions. So it is deduced, once all sends are known that were called before the receive was complete: of
//! each sender only the first message can be meant that the receive takes and that no earlier one got (MPI-4.0, 3.5);
//! it was called before the receive was complete; and as many messages are left as later receives got of the same
//! channel. Where one sender is left, that is what happened. Where several are, nothing is said, and neither of what
//! those that come after it get of the same channels. Called by analyses, now and then and at the end.

use std::collections::{BTreeMap, VecDeque};

use super::{Channel, Matcher, Operation, Posted, Wanted};
use crate::communicators::Member;

/// Receives that wait at a process for one of which it cannot be told what it got.
const MOST_OPEN: usize = 1 << 12;

/// What became known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Pairs of sends and receives.
    pub(crate) found: Vec<(Operation, Operation)>,
    /// Receives of which it cannot be told what they got.
    pub(crate) lost: Vec<Operation>,
}

/// How many messages of each channel the receives got that follow.
type Demand = BTreeMap<Channel, usize>;

impl Matcher {
    /// Deduces what receives got that were complete before `horizon`: all sends that were called before it are known.
    /// At the `end` nothing more comes, and what cannot be deduced is given up.
    pub(crate) fn settle(&mut self, horizon: u64, end: bool, settled: &mut Settled) {
        for key in std::mem::take(&mut self.untold) {
            self.settle_at(key, horizon, end, settled);
        }
    }

    fn settle_at(&mut self, key: (u32, Member), horizon: u64, end: bool, settled: &mut Settled) {
        let posted = self.posted.remove(&key).unwrap_or_default();
        let mut demand = demand(key, &posted);
        let mut open: VecDeque<Posted> = VecDeque::new();
        let many = posted.len() > MOST_OPEN;
        for receive in posted {
            let free = |channel: &Channel| {
                let mut before = open.iter();
                !before.any(|before| may_get(before, channel.from, channel.tag))
            };
            if let Some((from, tag)) = receive.got {
                let channel = channel(key, from, tag);
                if !free(&channel) {
                    open.push_back(receive);
                    continue;
                }
                if receive.ended.is_some()
                    && let Some(left) = demand.get_mut(&channel)
                {
                    *left -= 1;
                }
                self.take(channel, receive.operation, &mut settled.found);
                continue;
            }
            let Some(at) = receive.ended.filter(|at| end || *at < horizon) else {
                open.push_back(receive);
                continue;
            };
            let candidates = self.candidates(key, receive.wanted, at, &demand);
            let certain = |channel: &Channel| free(channel) && !self.doubtful.contains(channel);
            match candidates[..] {
                [channel] if certain(&channel) => {
                    self.take(channel, receive.operation, &mut settled.found);
                }
                _ if end || many || candidates.is_empty() => {
                    self.doubtful.extend(candidates);
                    settled.lost.push(receive.operation);
                }
                _ => open.push_back(receive),
            }
        }
        if open.iter().any(|it| it.got.is_none() && it.ended.is_some()) {
            self.untold.insert(key);
        }
        if !open.is_empty() {
            self.posted.insert(key, open);
        }
    }

    /// The channels whose next message a receive may have got that was complete at `at`.
    fn candidates(
        &self,
        (communicator, to): (u32, Member),
        wanted: Wanted,
        at: u64,
        demand: &Demand,
    ) -> Vec<Channel> {
        let end = |rank, job, tag| Channel {
            communicator,
            to,
            from: wanted.from.unwrap_or(Member { job, rank }),
            tag: wanted.tag.filter(|_| wanted.from.is_some()).unwrap_or(tag),
        };
        let all = end(0, 0, i32::MIN)..=end(u32::MAX, u32::MAX, i32::MAX);
        let heads = self.channels.range(all).filter_map(|(channel, queues)| {
            let first = queues.sends.front()?;
            let left = queues.sends.len() > demand.get(channel).copied().unwrap_or(0);
            let takes = wanted.takes(channel.from, channel.tag);
            takes.then_some((*channel, *first, left && first.at < at))
        });
        let mut heads: Vec<_> = heads.collect();
        // Of each sender's threads the first message: others cannot overtake it.
        heads.sort_by_key(|(channel, first, _)| (channel.from, first.thread, first.operation));
        heads.dedup_by_key(|(channel, first, _)| (channel.from, first.thread));
        heads.retain(|(_, _, possible)| *possible);
        heads.into_iter().map(|(channel, _, _)| channel).collect()
    }
}

fn channel((communicator, to): (u32, Member), from: Member, tag: i32) -> Channel {
    Channel {
        communicator,
        to,
        from,
        tag,
    }
}

/// Whether a receive may get a message with this tag from there.
fn may_get(receive: &Posted, from: Member, tag: i32) -> bool {
    match receive.got {
        Some(got) => got == (from, tag),
        None => receive.wanted.takes(from, tag),
    }
}

/// What receives got of which it is known.
fn demand(key: (u32, Member), posted: &VecDeque<Posted>) -> Demand {
    let mut demand = Demand::new();
    let complete = posted.iter().filter(|receive| receive.ended.is_some());
    for (from, tag) in complete.filter_map(|receive| receive.got) {
        *demand.entry(channel(key, from, tag)).or_default() += 1;
    }
    demand
}
