//! Collective operations with a count for each member or neighbour.
//!
//! All entries are kept, as [`Amount::pieces`]. Their number may depend on other processes' calls, which are not known
//! yet. Then as many as possible are read, and the sum is computed when the trace is analysed.

use belljar_trace::{Amount, Details, Peer, Share};

use super::Scene;
use crate::objects::communicators::{Communicator, Reach};

/// Bytes of the entries of an array of counts.
enum Entries {
    /// All of them.
    All(Vec<u64>),
    /// At least as many as there are, unless memory or types end early.
    Enough(Vec<u64>),
    /// They could not be read, or are not significant at this process.
    None,
}

/// Returns `amount` with each of the neighbours.
pub(super) fn times(amount: Amount, neighbors: Reach, share: Share) -> Amount {
    match neighbors {
        Reach::Exactly(count) => {
            let bytes = amount.bytes;
            Amount::whole(bytes.map(|bytes| bytes.saturating_mul(count.into())))
        }
        _ => amount.each(share),
    }
}

impl Scene<'_, '_> {
    /// Returns the number of processes with which data is exchanged.
    pub(super) fn members(&self) -> Reach {
        self.reach(Communicator::partners)
    }

    /// Returns the number of processes in the caller's own group.
    pub(super) fn group(&self) -> Reach {
        self.reach(Communicator::size)
    }

    fn reach(&self, size: impl Fn(&Communicator) -> Option<u32>) -> Reach {
        match self.communicator.map(size) {
            Some(Some(size)) => Reach::Exactly(size),
            Some(None) => Reach::UpTo(self.most, true),
            None => Reach::Nothing,
        }
    }

    /// Returns [`members`](Self::members) if this process may be the root; elsewhere the arrays are not significant and
    /// may not exist.
    pub(super) fn members_at_root(&self) -> Reach {
        let root = self.arguments.int("root").unwrap_or(i32::MIN);
        let root = self.arguments.implementation.peer(root);
        let Some(communicator) = self.communicator else {
            return Reach::Nothing;
        };
        let may_be_root = communicator.rank.is_none() && matches!(root, Peer::Rank(_));
        match (communicator.is_me(root), communicator.partners()) {
            (true, _) => self.members(),
            (false, size) if may_be_root => Reach::UpTo(size.unwrap_or(self.most), false),
            (false, _) => Reach::Nothing,
        }
    }

    /// Returns the numbers of neighbours from which and to which data goes.
    pub(super) fn degrees(&self) -> (Reach, Reach) {
        let neighbors = self
            .communicator
            .and_then(|communicator| communicator.neighbors);
        neighbors.unwrap_or((Reach::UpTo(self.most, false), Reach::UpTo(self.most, false)))
    }

    pub(super) fn vector(
        &mut self,
        counts: &str,
        datatype: &str,
        members: Reach,
        share: Share,
    ) -> Amount {
        let Some(size) = self.size(datatype) else {
            return Amount::whole(None);
        };
        let entries = self.counts(counts, members);
        entries.map(|count| count.saturating_mul(size)).sum(share)
    }

    pub(super) fn typed_vector(
        &mut self,
        counts: &str,
        types: &str,
        members: Reach,
        share: Share,
    ) -> Amount {
        let handles = match members {
            Reach::Exactly(count) => self.arguments.handles(types, count.into()),
            Reach::UpTo(most, needed) => {
                Some(self.arguments.handles_there(types, most.into(), needed))
            }
            Reach::Nothing => None,
        };
        let handles = handles.unwrap_or_default();
        let bytes = |counts: Vec<u64>| -> Vec<u64> {
            let pairs = counts.into_iter().zip(handles);
            // The type of an empty piece is not significant.
            let bytes = pairs.map_while(|(count, handle)| match count {
                0 => Some(0),
                _ => Some(count.saturating_mul(self.datatypes.size(handle)?)),
            });
            bytes.collect()
        };
        let entries = match self.counts(counts, members) {
            Entries::All(counts) => {
                let length = counts.len();
                let bytes = bytes(counts);
                if bytes.len() == length {
                    Entries::All(bytes)
                } else {
                    Entries::None
                }
            }
            Entries::Enough(counts) => Entries::Enough(bytes(counts)),
            Entries::None => Entries::None,
        };
        entries.sum(share)
    }

    /// Returns this process's entry of an array.
    pub(super) fn own_entry(&mut self, counts: &str, datatype: &str) -> Amount {
        let Some(size) = self.size(datatype) else {
            return Amount::whole(None);
        };
        let rank = self.communicator.and_then(|communicator| communicator.rank);
        let reach = match rank.and_then(|rank| rank.checked_add(1)) {
            Some(needed) => Reach::Exactly(needed),
            None => match self.group() {
                Reach::Exactly(size) => Reach::UpTo(size, true),
                other => other,
            },
        };
        match self.counts(counts, reach) {
            Entries::All(counts) => {
                let own = counts.last().map(|count| count.saturating_mul(size));
                Amount::whole(own)
            }
            entries => entries
                .map(|count| count.saturating_mul(size))
                .sum(Share::Own),
        }
    }

    /// Returns the displacements of the pieces of `sent` and `received` in their buffers.
    pub(super) fn displacements(&mut self, sent: &Amount, received: &Amount) -> Details {
        // The array `displs` belongs to the side that only the root has.
        let scatters = self.arguments.has("sendcounts");
        let (sends, receives) = match scatters {
            true => ("displs", "rdispls"),
            false => ("sdispls", "displs"),
        };
        let pick = |scene: &Self, own, shared| match scene.arguments.has(own) {
            true => own,
            false => shared,
        };
        let sends = pick(self, "sdispls", sends);
        let receives = pick(self, "rdispls", receives);
        let send_displacements = match self.in_place("sendbuf") {
            true => Vec::new(),
            false => self.offsets(sends, sent),
        };
        Details {
            send_displacements,
            receive_displacements: self.offsets(receives, received),
            ..Details::default()
        }
    }

    /// Returns the array `name` as far as there are pieces; empty if there is no such array.
    fn offsets(&mut self, name: &str, amount: &Amount) -> Vec<i64> {
        let count = amount.pieces.len() as u64;
        if count == 0 || !self.arguments.has(name) {
            return Vec::new();
        }
        match amount.bytes {
            Some(_) => self.arguments.integers(name, count).unwrap_or_default(),
            None => self.arguments.integers_there(name, count, false),
        }
    }

    fn counts(&mut self, name: &str, members: Reach) -> Entries {
        let natural = |counts: Vec<i64>| {
            let counts = counts.into_iter();
            counts
                .map(|count| u64::try_from(count).unwrap_or(0))
                .collect()
        };
        match members {
            Reach::Exactly(members) => match self.arguments.integers(name, members.into()) {
                Some(counts) if counts.len() == members as usize => Entries::All(natural(counts)),
                _ => Entries::None,
            },
            Reach::UpTo(most, needed) => {
                let counts = self.arguments.integers_there(name, most.into(), needed);
                Entries::Enough(natural(counts))
            }
            Reach::Nothing => Entries::None,
        }
    }
}

impl Entries {
    fn map(self, change: impl Fn(u64) -> u64) -> Self {
        let all = |entries: Vec<u64>| entries.into_iter().map(&change).collect();
        match self {
            Self::All(entries) => Self::All(all(entries)),
            Self::Enough(entries) => Self::Enough(all(entries)),
            Self::None => Self::None,
        }
    }

    fn sum(self, share: Share) -> Amount {
        match self {
            Self::All(pieces) => {
                let sum = pieces.iter().copied().fold(0, u64::saturating_add);
                Amount {
                    pieces,
                    ..Amount::whole(Some(sum))
                }
            }
            Self::Enough(pieces) => Amount {
                bytes: None,
                pieces,
                share,
                ..Amount::NOTHING
            },
            Self::None => Amount::whole(None),
        }
    }
}
