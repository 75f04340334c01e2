//! Which message is which: a number that its sender and its receiver have alike.
//!
//! Messages between two processes on one communicator with one tag do not overtake each other (MPI-4.0, 3.5), so the first side
//! that is seen makes a number, and the other one takes the oldest that waits. Receives are in the order of their posting where all before
//! them tell what they want, else in that of their completion. What is kept are messages of which one side was not seen yet. Where a
//! receive does not tell what it got, nothing that goes the same way later has a number. Called by the source.

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

/// Numbers messages.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    count: u64,
    waiting: usize,
    channels: BTreeMap<Channel, Waiting>,
    /// By communicator and receiver: receives without a number that are posted and not complete.
    open: BTreeMap<(u32, u32), u64>,
    /// Where it is not known any more which message is which.
    lost: BTreeSet<(u32, u32)>,
}

impl Matched {
    /// The number of a message that is sent.
    pub(crate) fn sent(&mut self, channel: Channel) -> Option<u64> {
        self.side(channel, |waiting| (&mut waiting.wanted, &mut waiting.sent))
    }

    /// The number of a message that is received.
    pub(crate) fn received(&mut self, channel: Channel) -> Option<u64> {
        self.side(channel, |waiting| (&mut waiting.sent, &mut waiting.wanted))
    }

    /// The number of a message that a receive is posted for, if it is known by now; else the receive is open until [`closed`](Self::closed).
    pub(crate) fn posted(&mut self, at: (u32, u32), channel: Option<Channel>) -> Option<u64> {
        let open = self.open.get(&at).is_some_and(|open| *open > 0);
        let number = channel.filter(|_| !open);
        let number = number.and_then(|channel| self.received(channel));
        if number.is_none() {
            *self.open.entry(at).or_default() += 1;
        }
        number
    }

    /// An open receive is complete.
    pub(crate) fn closed(&mut self, at: (u32, u32)) {
        if let Some(open) = self.open.get_mut(&at) {
            *open = open.saturating_sub(1);
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
    }

    /// A receive with this number gets nothing.
    pub(crate) fn withdraw(&mut self, channel: Channel, number: u64) {
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

    #[test]
    fn both_sides_have_one_number_in_order() {
        let mut matched = Matched::default();
        let one = matched.sent(CHANNEL);
        let two = matched.sent(CHANNEL);
        assert_eq!(matched.received(CHANNEL), one);
        assert_eq!(matched.received(CHANNEL), two);
        let three = matched.posted(AT, Some(CHANNEL));
        assert_eq!(matched.sent(CHANNEL), three);
        assert!(three.is_some() && matched.waiting == 0 && matched.channels.is_empty());
    }

    #[test]
    fn receives_after_an_open_one_wait_for_it() {
        let mut matched = Matched::default();
        let [first, second] = [matched.sent(CHANNEL), matched.sent(CHANNEL)];
        assert_eq!(matched.posted(AT, None), None);
        assert_eq!(matched.posted(AT, Some(CHANNEL)), None);
        matched.closed(AT);
        assert_eq!(matched.received(CHANNEL), first);
        matched.closed(AT);
        assert_eq!(matched.received(CHANNEL), second);
        assert!(matched.posted(AT, Some(CHANNEL)).is_some());
    }

    #[test]
    fn nothing_is_guessed_once_a_message_is_lost() {
        let mut matched = Matched::default();
        let withdrawn = matched.posted(AT, Some(CHANNEL)).expect("a number");
        matched.withdraw(CHANNEL, withdrawn);
        assert_ne!(matched.sent(CHANNEL), Some(withdrawn));
        matched.lose(AT);
        assert_eq!(matched.sent(CHANNEL), None);
        assert_eq!(matched.waiting, 0);
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
