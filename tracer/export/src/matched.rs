//! Numbers of messages, equal at sender and receiver.
//!
//! Messages between two processes on one communicator with one tag do not overtake each other (MPI-4.0, 3.5): the side that
//! is seen first makes a number, and the other side takes the oldest one that waits. Receives take numbers in the order of
//! their posting. A receive that comes after a wildcard of unknown match, and could have got the same message, gets its
//! number when the wildcard's match is known; one that completes before that has none. A wildcard whose match stays unknown
//! ends the numbering of its receiver and communicator. Messages with one side are kept. Called by the source.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Messages of which one side was not seen, at most.
const MOST: usize = 1 << 20;

/// What messages have in common that do not overtake each other; processes by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Channel {
    pub(crate) group: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) tag: i32,
}

/// Numbers of one channel that wait for the other side; of one kind at a time.
#[derive(Debug, Default)]
struct Waiting {
    sent: VecDeque<u64>,
    wanted: VecDeque<u64>,
}

/// A receive from its posting to its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// The number of its message.
    Number(u64),
    /// It waits for the match of a wildcard, its own or an earlier one's.
    Open(u64),
    /// Its message has no number.
    Unknown,
}

/// A receive without a number.
#[derive(Clone, Copy, Debug)]
struct Posted {
    receipt: u64,
    from: Option<u32>,
    tag: Option<i32>,
    /// The channel of its message, if it is known.
    got: Option<Channel>,
    /// It completed without a number.
    over: bool,
}

impl Posted {
    /// True if it may take a message of this sender and tag before receives that are posted later.
    fn may_take(&self, from: u32, tag: i32) -> bool {
        match self.got {
            Some(got) => (got.from, got.tag) == (from, tag),
            None => {
                self.from.is_none_or(|own| own == from) && self.tag.is_none_or(|own| own == tag)
            }
        }
    }
}

/// Numbers messages.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    count: u64,
    waiting: usize,
    channels: BTreeMap<Channel, Waiting>,
    /// By communicator and receiver: receives that wait for the match of a wildcard, in the order of their posting.
    posted: BTreeMap<(u32, u32), VecDeque<Posted>>,
    /// Their number.
    open: usize,
    /// Numbers of receives that became known before they completed.
    known: BTreeMap<u64, (Channel, u64)>,
    next: u64,
    /// Where it is not known any more which message is which.
    lost: BTreeSet<(u32, u32)>,
}

impl Matched {
    /// The number of a message that is sent.
    pub(crate) fn sent(&mut self, channel: Channel) -> Option<u64> {
        self.side(channel, |waiting| (&mut waiting.wanted, &mut waiting.sent))
    }

    fn received(&mut self, channel: Channel) -> Option<u64> {
        self.side(channel, |waiting| (&mut waiting.sent, &mut waiting.wanted))
    }

    /// A receive is posted by `at`, a communicator and a process, for messages from a process or from any, with a tag or any.
    pub(crate) fn posted(
        &mut self,
        at: (u32, u32),
        from: Option<u32>,
        tag: Option<i32>,
    ) -> Receipt {
        if self.lost.contains(&at) {
            return Receipt::Unknown;
        }
        let got = from.zip(tag).map(|(from, tag)| Channel {
            group: at.0,
            from,
            to: at.1,
            tag,
        });
        let queue = self.posted.get(&at).into_iter().flatten();
        let free = |got: &Channel| !queue.clone().any(|it| it.may_take(got.from, got.tag));
        if let Some(channel) = got.filter(free) {
            return self
                .received(channel)
                .map_or(Receipt::Unknown, Receipt::Number);
        }
        if self.open >= MOST {
            self.lose(at);
            return Receipt::Unknown;
        }
        self.open += 1;
        self.next += 1;
        self.posted.entry(at).or_default().push_back(Posted {
            receipt: self.next,
            from,
            tag,
            got,
            over: false,
        });
        Receipt::Open(self.next)
    }

    /// A receive of `at` completed with a message of this channel. Returns the message's number, if it is known.
    pub(crate) fn completed(
        &mut self,
        at: (u32, u32),
        receipt: Receipt,
        channel: Channel,
    ) -> Option<u64> {
        let receipt = match receipt {
            Receipt::Number(number) => return Some(number),
            Receipt::Unknown => return None,
            Receipt::Open(receipt) => receipt,
        };
        if let Some((_, number)) = self.known.remove(&receipt) {
            return Some(number);
        }
        let own = self.posted.get_mut(&at)?;
        let own = own.iter_mut().find(|it| it.receipt == receipt)?;
        own.got = Some(channel);
        self.release(at);
        if let Some((_, number)) = self.known.remove(&receipt) {
            return Some(number);
        }
        let own = self.posted.get_mut(&at).into_iter().flatten();
        own.filter(|it| it.receipt == receipt)
            .for_each(|it| it.over = true);
        None
    }

    /// Numbers the receives whose channels are known, as far as no earlier wildcard may have taken their messages.
    fn release(&mut self, at: (u32, u32)) {
        let Some(queue) = self.posted.remove(&at) else {
            return;
        };
        let mut left: VecDeque<Posted> = VecDeque::new();
        for posted in queue {
            let free = |got: &Channel| !left.iter().any(|it| it.may_take(got.from, got.tag));
            let Some(channel) = posted.got.filter(free) else {
                left.push_back(posted);
                continue;
            };
            self.open -= 1;
            let number = self.received(channel);
            if let Some(number) = number.filter(|_| !posted.over) {
                self.known.insert(posted.receipt, (channel, number));
            }
        }
        if !left.is_empty() {
            self.posted.insert(at, left);
        }
    }

    /// A receive got a message, and it is not known which.
    pub(crate) fn lose(&mut self, at: (u32, u32)) {
        if !self.lost.insert(at) {
            return;
        }
        self.channels
            .retain(|channel, _| (channel.group, channel.to) != at);
        self.waiting = self.channels.values().map(Waiting::len).sum();
        let open = self.posted.remove(&at);
        self.open -= open.map_or(0, |open| open.len());
    }

    /// A posted receive gets nothing; `channel` is where its message would have come from, if it named that.
    pub(crate) fn withdraw(&mut self, at: (u32, u32), receipt: Receipt, channel: Option<Channel>) {
        let numbered = match receipt {
            Receipt::Number(number) => channel.map(|channel| (channel, number)),
            Receipt::Open(receipt) => {
                if let Some(queue) = self.posted.get_mut(&at) {
                    let before = queue.len();
                    queue.retain(|it| it.receipt != receipt);
                    self.open -= before - queue.len();
                }
                let known = self.known.remove(&receipt);
                self.release(at);
                known
            }
            Receipt::Unknown => None,
        };
        let Some((channel, number)) = numbered else {
            return;
        };
        if let Some(waiting) = self.channels.get_mut(&channel) {
            let before = waiting.wanted.len();
            waiting.wanted.retain(|wanted| *wanted != number);
            self.waiting -= before - waiting.wanted.len();
        }
    }

    /// One side: takes what the other one left in the first queue, or leaves a number in the second.
    fn side(
        &mut self,
        channel: Channel,
        queues: impl FnOnce(&mut Waiting) -> (&mut VecDeque<u64>, &mut VecDeque<u64>),
    ) -> Option<u64> {
        if self.lost.contains(&(channel.group, channel.to)) {
            return None;
        }
        let waiting = self.channels.entry(channel).or_default();
        let (other, own) = queues(waiting);
        if let Some(number) = other.pop_front() {
            self.waiting -= 1;
            if waiting.len() == 0 {
                self.channels.remove(&channel);
            }
            return Some(number);
        }
        if self.waiting >= MOST {
            self.lose((channel.group, channel.to));
            return None;
        }
        self.count += 1;
        self.waiting += 1;
        own.push_back(self.count);
        Some(self.count)
    }
}

impl Waiting {
    fn len(&self) -> usize {
        self.sent.len() + self.wanted.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: Channel = Channel {
        group: 0,
        from: 0,
        to: 1,
        tag: 5,
    };
    const AT: (u32, u32) = (0, 1);

    fn post(matched: &mut Matched) -> Receipt {
        matched.posted(AT, Some(CHANNEL.from), Some(CHANNEL.tag))
    }

    #[test]
    fn both_sides_have_one_number_in_order() {
        let mut matched = Matched::default();
        let one = matched.sent(CHANNEL).unwrap();
        let two = matched.sent(CHANNEL).unwrap();
        assert_eq!(post(&mut matched), Receipt::Number(one));
        assert_eq!(post(&mut matched), Receipt::Number(two));
        let three = post(&mut matched);
        assert_eq!(matched.sent(CHANNEL).map(Receipt::Number), Some(three));
        assert!(matched.waiting == 0 && matched.channels.is_empty());
    }

    #[test]
    fn receives_after_a_wildcard_take_what_it_left() {
        let mut matched = Matched::default();
        let [first, second] = [matched.sent(CHANNEL), matched.sent(CHANNEL)];
        let any = matched.posted(AT, None, Some(CHANNEL.tag));
        let own = post(&mut matched);
        assert!(matches!((any, own), (Receipt::Open(_), Receipt::Open(_))));
        assert_eq!(matched.completed(AT, any, CHANNEL), first);
        assert_eq!(matched.completed(AT, own, CHANNEL), second);
        assert!(matches!(post(&mut matched), Receipt::Number(_)));
        assert_eq!(matched.open, 0);
    }

    #[test]
    fn a_receive_that_completes_before_a_wildcard_has_no_number_and_keeps_its_turn() {
        let mut matched = Matched::default();
        let other = Channel { from: 2, ..CHANNEL };
        let [first, second] = [matched.sent(CHANNEL), matched.sent(CHANNEL)];
        let away = matched.sent(other);
        let any = matched.posted(AT, None, Some(CHANNEL.tag));
        let own = post(&mut matched);
        let last = post(&mut matched);
        // It got the first message or the second, as the wildcard got it or not.
        assert_eq!(matched.completed(AT, own, CHANNEL), None);
        assert_eq!(matched.completed(AT, any, other), away);
        assert_ne!(first, second);
        assert_eq!(matched.completed(AT, last, CHANNEL), second);
    }

    #[test]
    fn a_receive_of_another_tag_does_not_wait_for_a_wildcard() {
        let mut matched = Matched::default();
        let other = Channel { tag: 9, ..CHANNEL };
        let number = matched.sent(other).unwrap();
        matched.posted(AT, None, Some(CHANNEL.tag));
        let posted = matched.posted(AT, Some(other.from), Some(other.tag));
        assert_eq!(posted, Receipt::Number(number));
    }

    #[test]
    fn nothing_is_guessed_once_a_message_is_lost() {
        let mut matched = Matched::default();
        let withdrawn = post(&mut matched);
        matched.withdraw(AT, withdrawn, Some(CHANNEL));
        assert_ne!(matched.sent(CHANNEL).map(Receipt::Number), Some(withdrawn));
        matched.posted(AT, None, None);
        matched.lose(AT);
        assert_eq!(matched.sent(CHANNEL), None);
        assert_eq!(post(&mut matched), Receipt::Unknown);
        assert_eq!((matched.waiting, matched.open), (0, 0));
    }

    #[test]
    fn what_nobody_receives_does_not_fill_memory() {
        let mut matched = Matched::default();
        for _ in 0..MOST {
            assert!(matched.sent(CHANNEL).is_some());
        }
        assert_eq!(matched.sent(CHANNEL), None);
        assert_eq!(matched.waiting, 0);
    }
}
