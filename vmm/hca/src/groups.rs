//! Multicast groups: which pairs of this card are in which group.
//!
//! The driver keeps the table in the card by commands: entries with a group's identifier, its pairs, and the next entry with the same hash. Datagrams
//! to a group go to each pair of its entries.

use std::collections::BTreeMap;

use belljar_verbs::{GlobalRoute, Packet};
use serde::{Deserialize, Serialize};

use crate::Step;
use crate::fields::{u32_at, u64_at};

/// Bytes of an entry: the largest that the driver may choose.
const LONGEST_ENTRY: usize = 4096;
const SHORTEST_ENTRY: usize = 32;
/// Offset of the pairs in an entry.
const FIRST_PAIR: usize = 0x20;

/// The table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Groups {
    entries: BTreeMap<u32, Vec<u8>>,
    /// Binary logarithms of an entry's bytes, of the number of hashes, and of the table's entries.
    log_entry: u8,
    log_hash: u8,
    log_size: u8,
}

impl Groups {
    /// An empty table with these logarithms: of an entry's bytes, of the number of hashes, and of the table's entries.
    pub(crate) fn with_logs([log_entry, log_hash, log_size]: [u8; 3]) -> Self {
        Self {
            entries: BTreeMap::new(),
            log_entry,
            log_hash,
            log_size,
        }
    }

    fn entry_bytes(&self) -> usize {
        (1_usize << self.log_entry.min(12)).clamp(SHORTEST_ENTRY, LONGEST_ENTRY)
    }

    fn has(&self, index: u32) -> bool {
        u64::from(index) >> self.log_size.min(24) == 0
    }

    /// An entry; `None` beyond the table.
    pub(crate) fn read(&self, index: u32) -> Option<Vec<u8>> {
        let empty = || vec![0; self.entry_bytes()];
        self.has(index)
            .then(|| self.entries.get(&index).cloned().unwrap_or_else(empty))
    }

    /// Sets an entry from a mailbox. False beyond the table.
    pub(crate) fn write(&mut self, index: u32, mailbox: &[u8]) -> bool {
        let entry = mailbox.get(..self.entry_bytes());
        let Some(entry) = entry.filter(|_| self.has(index)) else {
            return false;
        };
        self.entries.insert(index, entry.to_vec());
        true
    }

    /// The hash of a group's identifier.
    pub(crate) fn hash(&self, group: &[u8]) -> u32 {
        let folded = group.chunks(4).fold(0, |sum, part| sum ^ u32_at(part, 0));
        (folded ^ folded >> 16) & ((1 << self.log_hash.min(16)) - 1)
    }

    /// The pairs of a group.
    fn pairs(&self, group: &[u8; 16]) -> Vec<u32> {
        let is_same = |entry: &&Vec<u8>| {
            let own = [u64_at(entry, 0x10), u64_at(entry, 0x18)];
            own == [u64_at(group, 0), u64_at(group, 8)]
        };
        let entries = self.entries.values().filter(is_same);
        let pairs = entries.flat_map(|entry| {
            let count = (u32_at(entry, 4) & 0xff_ffff) as usize;
            let most = (entry.len() - FIRST_PAIR) / 4;
            let pair = |place: usize| u32_at(entry, FIRST_PAIR + 4 * place) & 0xff_ffff;
            // The number that stands for all pairs of a group is in none.
            (0..count.min(most))
                .map(pair)
                .filter(|pair| *pair != 0xff_ffff)
        });
        pairs.collect()
    }
}

impl Step<'_> {
    /// A datagram to a group.
    pub(crate) fn arrive_at_group(&mut self, packet: &Packet) {
        let group = packet.global.map(|route: GlobalRoute| route.destination);
        let pairs = group.map(|group| self.core.groups.pairs(&group));
        for number in pairs.unwrap_or_default() {
            let own = Packet {
                queue_pair: number,
                ..packet.clone()
            };
            // A sender does not get its own datagram.
            let is_own =
                packet.from == self.config.identity.lid && packet.extensions.source == number;
            if !is_own {
                self.arrive(&own);
            }
        }
    }
}
