//! Which receive got which message.
//!
//! Messages between two processes on one communicator with one tag do not overtake each other (MPI-4.0, 3.5):
//! the `n`th that is sent goes to the `n`th receive that is posted for it. What a receive with a wildcard got,
//! its status tells, or it is deduced by `wildcards`; until then it stands in the way of those that were posted after it and could have
//! got the same. So matches are found one by one, and what is kept is what has no partner yet. Called by
//! analyses, with the operations of each process in the order of their calls.

/// What receives with wildcards got of which no status tells it.
mod wildcards;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::communicators::Member;
pub(crate) use wildcards::Settled;

/// The number of an operation, as whoever asks counts them.
pub(crate) type Operation = u64;

/// What messages have in common that do not overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Channel {
    /// The communicator, by the number that all of its members have for it.
    pub(crate) communicator: u32,
    /// Who receives.
    pub(crate) to: Member,
    /// Who sends.
    pub(crate) from: Member,
    /// The tag.
    pub(crate) tag: i32,
}

/// What a receive asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// From whom; `None`: from anybody.
    pub(crate) from: Option<Member>,
    /// With which tag; `None`: with any.
    pub(crate) tag: Option<i32>,
}

impl Wanted {
    fn takes(self, from: Member, tag: i32) -> bool {
        self.from.is_none_or(|own| own == from) && self.tag.is_none_or(|own| own == tag)
    }
}

/// A message that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The send.
    pub(crate) operation: Operation,
    /// When it was called.
    pub(crate) at: u64,
    /// In which thread of its process.
    pub(crate) thread: u32,
}

/// A receive that is not in its channel yet.
#[derive(Debug)]
struct Posted {
    operation: Operation,
    wanted: Wanted,
    /// What it got.
    got: Option<(Member, i32)>,
    /// When it was seen to be complete.
    ended: Option<u64>,
}

/// Operations of a channel that have no partner yet; of one kind at a time.
#[derive(Debug, Default)]
struct Queues {
    sends: VecDeque<Sent>,
    receives: VecDeque<Operation>,
}

/// Matches sends and receives.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    channels: BTreeMap<Channel, Queues>,
    /// By communicator and receiver: receives in the order of their posting, from the first on of which it is
    /// not known what it got.
    posted: BTreeMap<(u32, Member), VecDeque<Posted>>,
    /// Those of them with receives that are complete and of which nothing tells what they got.
    untold: BTreeSet<(u32, Member)>,
    /// Channels of which a message may be gone to a receive of which it cannot be known.
    doubtful: BTreeSet<Channel>,
}

impl Matcher {
    /// A message is sent. The receive that gets it, if it is there already.
    pub(crate) fn send(&mut self, channel: Channel, sent: Sent) -> Option<Operation> {
        let queues = self.channels.entry(channel).or_default();
        let receive = queues.receives.pop_front();
        if receive.is_none() {
            queues.sends.push_back(sent);
        }
        self.drop_empty(channel);
        receive
    }

    /// A receive is posted. Pairs of sends and receives that are known by it go to `found`.
    pub(crate) fn receive(
        &mut self,
        (communicator, to): (u32, Member),
        wanted: Wanted,
        operation: Operation,
        found: &mut Vec<(Operation, Operation)>,
    ) {
        let got = wanted.from.zip(wanted.tag);
        let posted = self.posted.entry((communicator, to)).or_default();
        posted.push_back(Posted {
            operation,
            wanted,
            got,
            ended: None,
        });
        let stands_back = got.is_none_or(|(from, tag)| {
            let mut before = posted.iter().filter(|before| before.got.is_none());
            before.any(|before| before.wanted.takes(from, tag))
        });
        if !stands_back {
            self.release(communicator, to, found);
        }
    }

    /// A posted receive is complete, and nothing else is known of it.
    pub(crate) fn ended(&mut self, to: (u32, Member), operation: Operation, at: u64) {
        let posted = self.posted.get_mut(&to);
        let mut posted = posted.into_iter().flatten();
        if let Some(own) = posted.find(|posted| posted.operation == operation) {
            own.ended = Some(at);
            if own.got.is_none() {
                self.untold.insert(to);
            }
        }
    }

    /// It is known what a posted receive got.
    pub(crate) fn got(
        &mut self,
        (communicator, to): (u32, Member),
        operation: Operation,
        (from, tag): (Member, i32),
        found: &mut Vec<(Operation, Operation)>,
    ) {
        let posted = self.posted.get_mut(&(communicator, to));
        let mut posted = posted.into_iter().flatten();
        let Some(own) = posted.find(|posted| posted.operation == operation) else {
            return;
        };
        own.got = Some((from, tag));
        // When, nobody asks of those of which it is known what they got.
        own.ended.get_or_insert(0);
        self.release(communicator, to, found);
    }

    /// A posted receive gets nothing: it was cancelled, or failed.
    pub(crate) fn withdraw(
        &mut self,
        (communicator, to): (u32, Member),
        operation: Operation,
        found: &mut Vec<(Operation, Operation)>,
    ) {
        if let Some(posted) = self.posted.get_mut(&(communicator, to)) {
            posted.retain(|posted| posted.operation != operation);
            self.release(communicator, to, found);
        }
        for (channel, queues) in &mut self.channels {
            if channel.communicator == communicator && channel.to == to {
                queues.receives.retain(|receive| *receive != operation);
            }
        }
    }

    /// Puts receives into their channels as far as it is known what they got, and what those before them that
    /// could have got the same did.
    fn release(&mut self, communicator: u32, to: Member, found: &mut Vec<(Operation, Operation)>) {
        let Some(posted) = self.posted.remove(&(communicator, to)) else {
            return;
        };
        let mut open: VecDeque<Posted> = VecDeque::new();
        for receive in posted {
            let stands_back = |(from, tag)| {
                let mut before = open.iter().filter(|before| before.got.is_none());
                before.any(|before| before.wanted.takes(from, tag))
            };
            match receive.got.filter(|got| !stands_back(*got)) {
                Some((from, tag)) => {
                    let channel = Channel {
                        communicator,
                        to,
                        from,
                        tag,
                    };
                    self.take(channel, receive.operation, found);
                }
                None => open.push_back(receive),
            }
        }
        if !open.is_empty() {
            self.posted.insert((communicator, to), open);
        }
    }

    /// A receive gets the next message of a channel.
    fn take(
        &mut self,
        channel: Channel,
        receive: Operation,
        found: &mut Vec<(Operation, Operation)>,
    ) {
        let queues = self.channels.entry(channel).or_default();
        match queues.sends.pop_front() {
            Some(send) => found.push((send.operation, receive)),
            None => queues.receives.push_back(receive),
        }
        self.drop_empty(channel);
    }

    fn drop_empty(&mut self, channel: Channel) {
        let queues = self.channels.get(&channel);
        if queues.is_some_and(|queues| queues.sends.is_empty() && queues.receives.is_empty()) {
            self.channels.remove(&channel);
        }
    }

    /// How many sends and how many receives have no partner.
    pub(crate) fn alone(&self) -> (u64, u64) {
        let queues = self.channels.values();
        let (sends, receives) = queues.fold((0, 0), |(sends, receives), queues| {
            (
                sends + queues.sends.len() as u64,
                receives + queues.receives.len() as u64,
            )
        });
        let posted: usize = self.posted.values().map(VecDeque::len).sum();
        (sends, receives + posted as u64)
    }
}

#[cfg(test)]
mod tests;
