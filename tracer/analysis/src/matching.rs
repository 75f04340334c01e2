//! Which receive got which message.
//!
//! Messages between two processes on one communicator with one tag do not overtake each other (MPI-4.0, 3.5):
//! the `n`th that is sent goes to the `n`th receive that is posted for it. What a receive with a wildcard got,
//! its status tells; until then it stands in the way of those that were posted after it and could have
//! got the same. So matches are found one by one, and what is kept is what has no partner yet. Called by
//! analyses, with the operations of each process in the order of their calls.

use std::collections::{BTreeMap, VecDeque};

use crate::communicators::Member;

/// The number of an operation, as whoever asks counts them.
pub(crate) type Operation = u64;

/// What messages have in common that do not overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Channel {
    /// The communicator, by the number that all of its members have for it.
    pub(crate) communicator: u32,
    /// Who sends.
    pub(crate) from: Member,
    /// Who receives.
    pub(crate) to: Member,
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

/// A receive that is not in its channel yet.
#[derive(Debug)]
struct Posted {
    operation: Operation,
    wanted: Wanted,
    /// What it got.
    got: Option<(Member, i32)>,
}

/// Operations of a channel that have no partner yet; of one kind at a time.
#[derive(Debug, Default)]
struct Queues {
    sends: VecDeque<Operation>,
    receives: VecDeque<Operation>,
}

/// Matches sends and receives.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    channels: BTreeMap<Channel, Queues>,
    /// By communicator and receiver: receives in the order of their posting, from the first on of which it is
    /// not known what it got.
    posted: BTreeMap<(u32, Member), VecDeque<Posted>>,
}

impl Matcher {
    /// A message is sent. The receive that gets it, if it is there already.
    pub(crate) fn send(&mut self, channel: Channel, operation: Operation) -> Option<Operation> {
        let queues = self.channels.entry(channel).or_default();
        let receive = queues.receives.pop_front();
        if receive.is_none() {
            queues.sends.push_back(operation);
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
        });
        if got.is_some() {
            self.release(communicator, to, found);
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
                        from,
                        to,
                        tag,
                    };
                    let queues = self.channels.entry(channel).or_default();
                    match queues.sends.pop_front() {
                        Some(send) => found.push((send, receive.operation)),
                        None => queues.receives.push_back(receive.operation),
                    }
                    self.drop_empty(channel);
                }
                None => open.push_back(receive),
            }
        }
        if !open.is_empty() {
            self.posted.insert((communicator, to), open);
        }
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
mod tests {
    use super::*;

    const TO: Member = Member { job: 0, rank: 0 };
    const ANY: Wanted = Wanted {
        from: None,
        tag: None,
    };

    fn rank(rank: u32) -> Member {
        Member { job: 0, rank }
    }

    fn from(rank: u32, tag: i32) -> Channel {
        Channel {
            communicator: 0,
            from: self::rank(rank),
            to: TO,
            tag,
        }
    }

    fn wanted(from: u32, tag: i32) -> Wanted {
        Wanted {
            from: Some(rank(from)),
            tag: Some(tag),
        }
    }

    #[test]
    fn messages_of_a_channel_do_not_overtake() {
        let (mut matcher, mut found) = (Matcher::default(), Vec::new());
        assert_eq!(matcher.send(from(1, 5), 1), None);
        assert_eq!(matcher.send(from(1, 5), 2), None);
        assert_eq!(matcher.send(from(1, 6), 3), None);
        matcher.receive((0, TO), wanted(1, 6), 10, &mut found);
        matcher.receive((0, TO), wanted(1, 5), 11, &mut found);
        matcher.receive((0, TO), wanted(1, 5), 12, &mut found);
        matcher.receive((0, TO), wanted(1, 5), 13, &mut found);
        assert_eq!(found, [(3, 10), (1, 11), (2, 12)]);
        assert_eq!(matcher.alone(), (0, 1));
        assert_eq!(matcher.send(from(1, 5), 4), Some(13));
        assert_eq!(matcher.alone(), (0, 0));
        assert!(matcher.channels.is_empty() && matcher.posted.is_empty());
    }

    #[test]
    fn a_wildcard_that_was_posted_first_gets_the_first_message() {
        let (mut matcher, mut found) = (Matcher::default(), Vec::new());
        matcher.receive((0, TO), ANY, 10, &mut found);
        matcher.receive((0, TO), wanted(1, 5), 11, &mut found);
        matcher.receive((0, TO), wanted(2, 5), 12, &mut found);
        for (send, channel) in [(1, from(1, 5)), (2, from(1, 5)), (3, from(2, 5))] {
            assert_eq!(matcher.send(channel, send), None, "nothing is known yet");
        }
        matcher.got((0, TO), 10, (rank(1), 5), &mut found);
        assert_eq!(found, [(1, 10), (2, 11), (3, 12)]);
    }

    #[test]
    fn what_a_wildcard_cannot_take_does_not_wait_for_it() {
        let (mut matcher, mut found) = (Matcher::default(), Vec::new());
        let tagged = Wanted {
            from: None,
            tag: Some(7),
        };
        matcher.receive((0, TO), tagged, 10, &mut found);
        matcher.receive((0, TO), wanted(1, 5), 11, &mut found);
        assert_eq!(matcher.send(from(1, 5), 1), Some(11));
        assert_eq!(matcher.alone(), (0, 1));
    }

    #[test]
    fn what_is_cancelled_gets_nothing_and_holds_nobody_up() {
        let (mut matcher, mut found) = (Matcher::default(), Vec::new());
        matcher.receive((0, TO), ANY, 10, &mut found);
        matcher.receive((0, TO), wanted(1, 5), 11, &mut found);
        matcher.withdraw((0, TO), 10, &mut found);
        matcher.receive((0, TO), wanted(1, 5), 12, &mut found);
        matcher.withdraw((0, TO), 11, &mut found);
        assert_eq!(matcher.send(from(1, 5), 1), Some(12));
    }
}
