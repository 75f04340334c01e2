//! Comparison of the sends and receives of a generated run.
//!
//! Relations and turns are learned call by call. If one of them is wrong at a size, some message lacks its receive, or some receive its message. Used by `generate`.

use std::collections::BTreeMap;

use belljar_trace::{Direction, Event, Peer, Phase, Transfer};

use super::GenerateError;
use super::groups::Groups;

/// A communicator, and two of its members by world rank.
type Pair = (usize, u32, u32);

/// Messages between two ranks.
#[derive(Debug, Default)]
struct Traffic {
    /// Bytes of each send by its tag, in order.
    sent: BTreeMap<i32, Vec<u64>>,
    /// Buffer sizes of receives by tag, in order; without a tag, they accept any.
    received: BTreeMap<Option<i32>, Vec<u64>>,
}

/// Messages of all ranks.
#[derive(Debug, Default)]
struct Messages {
    pairs: BTreeMap<Pair, Traffic>,
    /// Receives of any source, by communicator and rank.
    wildcards: BTreeMap<(usize, u32), u64>,
}

/// Compares the sends and receives of all ranks.
///
/// # Errors
/// Returns [`GenerateError::Unmatched`] for the first two ranks whose sends and receives differ in number, or for a receive that is too small for its message.
pub(super) fn check(events: &[Event], groups: &Groups) -> Result<(), GenerateError> {
    let mut all = Messages::default();
    for event in events {
        for transfer in &event.transfers {
            // Accesses to windows have no receives, and persistent requests move their messages when they are started.
            if transfer.is_access() || transfer.phase == Phase::Prepared {
                return Ok(());
            }
            let of = transfer.communicator;
            let Some(group) = of.and_then(|number| groups.number(event.rank, number)) else {
                return Ok(());
            };
            all.add(group, event.rank, transfer, groups)?;
        }
    }
    all.compare()
}

impl Messages {
    /// Adds a message of a rank in a communicator.
    fn add(
        &mut self,
        group: usize,
        rank: u32,
        transfer: &Transfer,
        groups: &Groups,
    ) -> Result<(), GenerateError> {
        let other = match transfer.peer {
            Peer::Rank(peer) => groups.world_rank(group, peer),
            Peer::Any => {
                *self.wildcards.entry((group, rank)).or_default() += 1;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let other = other.ok_or_else(|| {
            GenerateError::Unmatched(format!(
                "rank {rank} has a message for a rank that its communicator lacks"
            ))
        })?;
        let all = match transfer.direction {
            Direction::Send => {
                let pair = self.pairs.entry((group, rank, other)).or_default();
                pair.sent.entry(transfer.tag.unwrap_or(0)).or_default()
            }
            Direction::Receive => {
                let pair = self.pairs.entry((group, other, rank)).or_default();
                pair.received.entry(transfer.tag).or_default()
            }
        };
        all.push(transfer.bytes);
        Ok(())
    }

    fn compare(mut self) -> Result<(), GenerateError> {
        for ((group, from, to), traffic) in &self.pairs {
            let left = traffic.left().map_err(|why| {
                GenerateError::Unmatched(format!("rank {from} sends to rank {to} {why}"))
            })?;
            let any = self.wildcards.entry((*group, *to)).or_default();
            let sent: usize = traffic.sent.values().map(Vec::len).sum();
            *any = any.checked_sub(left).ok_or_else(|| {
                let taken = sent as u64 - left;
                GenerateError::Unmatched(format!(
                    "rank {from} sends {sent} messages to rank {to}, which receives {taken} of them"
                ))
            })?;
        }
        match self.wildcards.iter().find(|(_, left)| **left > 0) {
            None => Ok(()),
            Some(((_, rank), left)) => Err(GenerateError::Unmatched(format!(
                "rank {rank} has {left} receives of any source without a message"
            ))),
        }
    }
}

impl Traffic {
    /// Returns the number of messages that only receives of any source can take; an error text for receives without a message.
    fn left(&self) -> Result<u64, String> {
        let mut left = 0;
        let none = Vec::new();
        for (tag, sent) in &self.sent {
            let received = self.received.get(&Some(*tag)).unwrap_or(&none);
            if received.len() > sent.len() && !self.received.contains_key(&None) {
                return Err(self.few(*tag));
            }
            let mut both = sent.iter().zip(received);
            if let Some((bytes, room)) = both.find(|(bytes, room)| bytes > room) {
                return Err(format!(
                    "a message of {bytes} bytes with tag {tag}, for which the receive has room for {room}"
                ));
            }
            left += (sent.len() as u64).saturating_sub(received.len() as u64);
        }
        let unsent = |tag: &&i32| !self.sent.contains_key(tag);
        if let Some(tag) = self.received.keys().flatten().find(unsent) {
            return Err(self.few(*tag));
        }
        let any_tag = self.received.get(&None).map_or(0, Vec::len) as u64;
        left.checked_sub(any_tag)
            .ok_or_else(|| "fewer messages than that one receives".to_owned())
    }

    /// Describes fewer sends of a tag than receives.
    fn few(&self, tag: i32) -> String {
        let sent = self.sent.get(&tag).map_or(0, Vec::len);
        let received = self.received.get(&Some(tag)).map_or(0, Vec::len);
        format!("{sent} messages with tag {tag}, and that one receives {received}")
    }
}
