//! Collective operations with a count for each member or neighbour.
//!
//! Each entry is kept, as [`Amount::pieces`]. How many there are may follow from other processes' calls, which nobody
//! knows yet. Then as many are read as there can be, and what they sum up to is told when the trace is analysed.

use belljar_trace::{Amount, Details, Peer, Share};

use super::Scene;
use crate::objects::communicators::{Communicator, Reach};

/// Bytes of the entries of an array of counts.
enum Entries {
    /// All of them.
    All(Vec<u64>),
    /// At least as many as there are, unless memory or types ended early.
    Enough(Vec<u64>),
    /// They could not be read, or are not this process's to tell.
    None,
}

/// As much as `amount` with each of the neighbours, of whom there are so many.
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
    /// With how many processes data is exchanged.
    pub(super) fn members(&self) -> Reach {
        self.reach(Communicator::partners)
    }

    /// How many processes there are in the caller's own group.
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

    /// [`members`](Self::members) where this process may be the root: elsewhere
    /// the arrays mean nothing and may not exist.
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

    /// How many neighbours data comes from, and how many it goes to.
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
            // The type of an empty piece means nothing.
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

    /// This process's own entry of an array.
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

    /// Where in their buffers the pieces of `sent` and `received` are.
    pub(super) fn displacements(&mut self, sent: &Amount, received: &Amount) -> Details {
        // One array of this name belongs to what the root's own side of the operation has.
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

    /// The array `name` as far as there are pieces; nothing where there is none.
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
