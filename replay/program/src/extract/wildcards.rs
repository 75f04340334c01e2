//! Wildcard receives: their channel when the match is known, and a guess if it stays unknown.
//!
//! A guess takes a message without another receive on its channel: of the channels with such messages, the one whose
//! message was sent first. A replay needs a match, as it would stop without; guesses among several channels are counted.
//! Used by `extract`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use belljar_job::{Channel as Told, Member, ReceiveSelector};

use super::{Extractor, OpenOperation};
use crate::program::{ChannelId, Operation, ProcessId};

/// A wildcard receive whose channel is unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wildcard {
    pub(super) open: OpenOperation,
    /// The communicator, by the number common to all members.
    pub(super) communicator: u32,
    pub(super) to: Member,
    pub(super) wanted: ReceiveSelector,
    /// True if its data is noncontiguous.
    pub(super) pieces: bool,
}

/// By communicator and receiver, and by channel: the calls of messages without a receive on the channel, in picoseconds.
type Left = BTreeMap<(u32, ProcessId), BTreeMap<ChannelId, VecDeque<u64>>>;

impl Extractor<'_> {
    /// Sets the channel of a wildcard receive.
    pub(super) fn locate(&mut self, wildcard: Wildcard, channel: Told) {
        self.shared.program.unknown.ordered += u64::from(wildcard.wanted.from.is_none());
        let channel = self.shared.channel(channel);
        self.take(wildcard, channel);
    }

    fn take(&mut self, wildcard: Wildcard, channel: ChannelId) {
        let open = wildcard.open;
        let receive = Operation::Receive {
            channel,
            slot: open.slot,
            pieces: wildcard.pieces,
        };
        self.mend(open, receive);
    }

    /// Matches the remaining receives with the remaining messages.
    pub(super) fn guess(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        if lost.is_empty() {
            return;
        }
        let mut left = self.left();
        for wildcard in lost {
            let to = self.shared.process(wildcard.to);
            let wanted = wildcard.wanted;
            let from = wanted.from.map(|from| self.shared.process(from));
            let channels = &self.shared.program.channels;
            let left = left.entry((wildcard.communicator, to)).or_default();
            let fits = left.iter().filter_map(|(id, times)| {
                let channel = &channels[*id as usize];
                let takes = wanted.tag.is_none_or(|tag| tag == channel.tag)
                    && from.is_none_or(|from| from == channel.from);
                times.front().filter(|_| takes).map(|first| (*first, *id))
            });
            let fits: Vec<(u64, ChannelId)> = fits.collect();
            let Some((_, channel)) = fits.iter().min().copied() else {
                self.shared.program.unknown.messages += 1;
                continue;
            };
            self.shared.program.unknown.guessed += u64::from(fits.len() > 1);
            if let Entry::Occupied(mut times) = left.entry(channel) {
                times.get_mut().pop_front();
                if times.get().is_empty() {
                    times.remove();
                }
            }
            self.take(wildcard, channel);
        }
    }

    /// Returns the messages without a receive.
    fn left(&self) -> Left {
        let mut sent: BTreeMap<ChannelId, Vec<u64>> = BTreeMap::new();
        let mut received: BTreeMap<ChannelId, usize> = BTreeMap::new();
        for thread in self.threads.values() {
            for (operation, entry) in thread.timed() {
                match operation {
                    Operation::Send { channel, .. }
                    | Operation::SendPartitioned { channel, .. } => {
                        sent.entry(*channel).or_default().push(entry);
                    }
                    Operation::Receive { channel, .. } => {
                        *received.entry(*channel).or_default() += 1;
                    }
                    _ => {}
                }
            }
        }
        let mut left = Left::new();
        for (id, mut times) in sent {
            times.sort_unstable();
            let taken = received.get(&id).copied().unwrap_or(0);
            let times: VecDeque<u64> = times.into_iter().skip(taken).collect();
            if !times.is_empty() {
                let channel = &self.shared.program.channels[id as usize];
                let place = (channel.communicator, channel.to);
                left.entry(place).or_default().insert(id, times);
            }
        }
        left
    }
}
