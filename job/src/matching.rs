//! Matching of sends and receives.
//!
//! Messages between two processes on one communicator with one tag do not overtake each other (MPI-4.0, 3.5): the `n`th
//! send of a channel matches the `n`th receive that is posted for it. The channel of a wildcard receive comes from its
//! status, or is deduced by `wildcards`; until then it blocks receives that were posted later and fit the same message.
//! State is kept of operations without a partner alone. Called by `operations`, with the operations of each process in
//! the order of their calls.

/// Deduction of the channels of wildcard receives without a status.
mod wildcards;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::communicators::Member;
use crate::operations::fact::{Fact, Loss, OperationId};

/// Sends and receives without a partner that are followed at once.
const MOST_UNMATCHED: usize = 1 << 22;

/// A channel: messages in it do not overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channel {
    /// The [identity](crate::Communicators::identity) of the communicator.
    pub communicator: u32,
    /// The receiver.
    pub to: Member,
    /// The sender.
    pub from: Member,
    /// The tag.
    pub tag: i32,
}

/// The sender and tag that a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveSelector {
    /// The sender; `None` for any.
    pub from: Option<Member>,
    /// The tag; `None` for any.
    pub tag: Option<i32>,
}

impl ReceiveSelector {
    fn takes(self, from: Member, tag: i32) -> bool {
        self.from.is_none_or(|own| own == from) && self.tag.is_none_or(|own| own == tag)
    }
}

/// A message that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The send.
    pub(crate) operation: OperationId,
    /// The entry of its call.
    pub(crate) at: u64,
    /// The thread of its process.
    pub(crate) thread: u32,
}

/// A receive without a channel.
#[derive(Debug)]
struct Posted {
    operation: OperationId,
    wanted: ReceiveSelector,
    /// The sender and tag of its message, if they are known.
    got: Option<(Member, i32)>,
    /// The time at which it was complete.
    ended: Option<u64>,
    /// True if it is complete and may have been cancelled before: it got a message or nothing.
    perhaps_cancelled: bool,
}

impl Posted {
    /// True if a later receive of a message of this sender and tag waits until this one's message is known.
    fn blocks(&self, from: Member, tag: i32) -> bool {
        (self.got.is_none() || self.perhaps_cancelled) && self.wanted.takes(from, tag)
    }
}

/// A receive without a message.
#[derive(Debug)]
struct UnmatchedReceive {
    operation: OperationId,
    /// The time at which it was complete, for one that may have been cancelled before. It is lost: it got nothing, or a message that was sent
    /// before and is not known yet.
    lost: Option<u64>,
}

/// Operations of a channel without a partner; of one kind at a time.
#[derive(Debug, Default)]
struct Queues {
    sends: VecDeque<Sent>,
    receives: VecDeque<UnmatchedReceive>,
}

/// A receiver on a communicator.
type Place = (u32, Member);

/// Matches sends and receives.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    channels: BTreeMap<Channel, Queues>,
    /// The number of operations in `channels`.
    queued: usize,
    /// Receives in the order of their posting, from the first on whose channel is unknown.
    posted: BTreeMap<Place, VecDeque<Posted>>,
    /// Places with complete receives of unknown channel.
    untold: BTreeSet<Place>,
    /// Channels with a message that a wildcard receive of unknown match may have taken.
    doubtful: BTreeSet<Channel>,
}

impl Matcher {
    /// A message is sent.
    pub(crate) fn send(&mut self, channel: Channel, sent: Sent, facts: &mut Vec<Fact>) {
        if self.doubtful.contains(&channel) {
            facts.push(lost(sent.operation, Loss::Doubtful));
            return;
        }
        let queues = self.channels.entry(channel).or_default();
        while let Some(waiting) = queues.receives.pop_front() {
            self.queued -= 1;
            match waiting.lost {
                Some(at) if at < sent.at => {}
                Some(_) => {
                    facts.push(lost(sent.operation, Loss::Doubtful));
                    self.doubt(channel, Loss::Doubtful, facts);
                    return;
                }
                None => {
                    let (send, receive) = (sent.operation, waiting.operation);
                    facts.push(Fact::Matched { send, receive });
                    self.tidy(channel, facts);
                    return;
                }
            }
        }
        queues.sends.push_back(sent);
        self.queued += 1;
        self.tidy(channel, facts);
    }

    /// A receive is posted.
    pub(crate) fn receive(
        &mut self,
        place: Place,
        wanted: ReceiveSelector,
        operation: OperationId,
        facts: &mut Vec<Fact>,
    ) {
        let got = wanted.from.zip(wanted.tag);
        let posted = self.posted.get(&place);
        let free = |(from, tag)| {
            let mut before = posted.into_iter().flatten();
            !before.any(|before| before.blocks(from, tag))
        };
        if let Some((from, tag)) = got.filter(|got| free(*got)) {
            self.take(channel(place, from, tag), operation, facts);
            return;
        }
        self.posted.entry(place).or_default().push_back(Posted {
            operation,
            wanted,
            got,
            ended: None,
            perhaps_cancelled: false,
        });
    }

    /// A posted receive is complete, and has no status.
    pub(crate) fn ended(&mut self, place: Place, operation: OperationId, at: u64) {
        let posted = self.posted.get_mut(&place);
        let mut posted = posted.into_iter().flatten();
        if let Some(own) = posted.find(|posted| posted.operation == operation) {
            own.ended = Some(at);
            if own.got.is_none() {
                self.untold.insert(place);
            }
        }
    }

    /// A receive that may have been cancelled is complete, and has no status: it got a message or nothing.
    pub(crate) fn perhaps_cancelled(
        &mut self,
        place: Place,
        operation: OperationId,
        at: u64,
        facts: &mut Vec<Fact>,
    ) {
        let posted = self.posted.get_mut(&place);
        let mut posted = posted.into_iter().flatten();
        if let Some(own) = posted.find(|posted| posted.operation == operation) {
            (own.ended, own.perhaps_cancelled) = (Some(at), true);
            self.untold.insert(place);
            return;
        }
        let [first, last] = bounds(place);
        let queues = self.channels.range_mut(first..=last);
        let mut waiting = queues.flat_map(|(_, queues)| &mut queues.receives);
        if let Some(own) = waiting.find(|waiting| waiting.operation == operation) {
            own.lost = Some(at);
            facts.push(lost(operation, Loss::Ambiguous));
        }
    }

    /// The sender and tag of a posted receive are known.
    pub(crate) fn got(
        &mut self,
        place: Place,
        operation: OperationId,
        from: Member,
        tag: i32,
        facts: &mut Vec<Fact>,
    ) {
        let posted = self.posted.get_mut(&place);
        let mut posted = posted.into_iter().flatten();
        let Some(own) = posted.find(|posted| posted.operation == operation) else {
            return;
        };
        own.got = Some((from, tag));
        // The time matters for receives of unknown channel alone.
        own.ended.get_or_insert(0);
        self.release(place, facts);
    }

    /// A posted receive gets nothing: it was cancelled, or failed.
    pub(crate) fn withdraw(&mut self, place: Place, operation: OperationId, facts: &mut Vec<Fact>) {
        if let Some(posted) = self.posted.get_mut(&place) {
            posted.retain(|posted| posted.operation != operation);
            self.release(place, facts);
        }
        let [first, last] = bounds(place);
        for (_, queues) in self.channels.range_mut(first..=last) {
            let before = queues.receives.len();
            queues
                .receives
                .retain(|receive| receive.operation != operation);
            self.queued -= before - queues.receives.len();
        }
    }

    /// A message is not sent: it was cancelled, or failed.
    pub(crate) fn withdraw_send(&mut self, channel: Channel, operation: OperationId) {
        if let Some(queues) = self.channels.get_mut(&channel) {
            let before = queues.sends.len();
            queues.sends.retain(|send| send.operation != operation);
            self.queued -= before - queues.sends.len();
        }
    }

    /// Moves receives of known channel into their channels, where no earlier receive blocks them.
    fn release(&mut self, place: Place, facts: &mut Vec<Fact>) {
        let Some(posted) = self.posted.remove(&place) else {
            return;
        };
        let mut open: VecDeque<Posted> = VecDeque::new();
        for receive in posted {
            let blocked = |(from, tag)| {
                let mut before = open.iter();
                before.any(|before| before.blocks(from, tag))
            };
            let got = receive.got.filter(|_| !receive.perhaps_cancelled);
            match got.filter(|got| !blocked(*got)) {
                Some((from, tag)) => {
                    self.take(channel(place, from, tag), receive.operation, facts);
                }
                None => open.push_back(receive),
            }
        }
        if !open.is_empty() {
            self.posted.insert(place, open);
        }
    }

    /// A receive gets the next message of a channel.
    fn take(&mut self, channel: Channel, receive: OperationId, facts: &mut Vec<Fact>) {
        if self.doubtful.contains(&channel) {
            facts.push(lost(receive, Loss::Doubtful));
            return;
        }
        facts.push(Fact::Located { receive, channel });
        let queues = self.channels.entry(channel).or_default();
        match queues.sends.pop_front() {
            Some(send) => {
                self.queued -= 1;
                let send = send.operation;
                facts.push(Fact::Matched { send, receive });
            }
            None => {
                queues.receives.push_back(UnmatchedReceive {
                    operation: receive,
                    lost: None,
                });
                self.queued += 1;
            }
        }
        self.tidy(channel, facts);
    }

    /// Forgets a channel without operations, and gives up one when there are too many operations.
    fn tidy(&mut self, channel: Channel, facts: &mut Vec<Fact>) {
        let queues = self.channels.get(&channel);
        if queues.is_some_and(|queues| queues.sends.is_empty() && queues.receives.is_empty()) {
            self.channels.remove(&channel);
        }
        if self.queued > MOST_UNMATCHED {
            self.doubt(channel, Loss::Crowded, facts);
        }
    }

    /// The matches of a channel are unknown from now on.
    fn doubt(&mut self, channel: Channel, why: Loss, facts: &mut Vec<Fact>) {
        self.doubtful.insert(channel);
        let queues = self.channels.remove(&channel).unwrap_or_default();
        self.queued -= queues.sends.len() + queues.receives.len();
        let sends = queues.sends.into_iter().map(|send| send.operation);
        let receives = queues.receives.into_iter();
        let receives = receives.filter(|own| own.lost.is_none());
        let receives = receives.map(|own| own.operation);
        let all = sends.chain(receives);
        facts.extend(all.map(|operation| lost(operation, why)));
    }

    /// The number of sends and of receives without a partner.
    pub(crate) fn alone(&self) -> (u64, u64) {
        let queues = self.channels.values();
        let (sends, receives) = queues.fold((0, 0), |(sends, receives), queues| {
            let waiting = queues.receives.iter().filter(|own| own.lost.is_none());
            (
                sends + queues.sends.len() as u64,
                receives + waiting.count() as u64,
            )
        });
        let posted: usize = self.posted.values().map(VecDeque::len).sum();
        (sends, receives + posted as u64)
    }
}

fn lost(operation: OperationId, why: Loss) -> Fact {
    Fact::Lost { operation, why }
}

fn channel((communicator, to): Place, from: Member, tag: i32) -> Channel {
    Channel {
        communicator,
        to,
        from,
        tag,
    }
}

/// The first and the last channel to a place.
fn bounds(place: Place) -> [Channel; 2] {
    let end = |number, tag| {
        let (job, rank) = (number, number);
        channel(place, Member { job, rank }, tag)
    };
    [end(0, i32::MIN), end(u32::MAX, i32::MAX)]
}

#[cfg(test)]
mod tests;
