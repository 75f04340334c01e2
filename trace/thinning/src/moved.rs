//! Data moved by collective operations of dropped calls.
//!
//! A process's amount depends on its communicator, which is known only when the whole trace is. Sums are therefore kept of
//! operations that differ only in their amounts. Memory is bounded: beyond `MOST` kinds, operations are only counted. Used by
//! `follower`, and where a trace's statistics are computed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use belljar_mpi::{Meaning, meaning_of};
use belljar_trace::{Amount, Collective, Peer, Phase, Share, Who};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Most kinds of operations of a thread.
const MOST: usize = 4096;

/// The properties that equal operations share: function, communicator, root, and for each of both amounts its partners, its
/// members and whether it is a total.
type Kind = (u16, Option<u32>, Option<Peer>, [(Share, Who, bool); 2]);

/// Sums over operations of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Sum {
    operations: u64,
    /// The amounts sent and received: bytes, or pieces.
    amounts: [(u64, Vec<u64>); 2],
}

/// Sums by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Operations(BTreeMap<Kind, Sum>);

impl Operations {
    /// Adds an operation of a call of `function`. Returns true if there was room for it.
    pub(crate) fn add(&mut self, function: u16, operation: &Collective) -> bool {
        let both = [&operation.sent, &operation.received];
        let kind = |it: &Amount| (it.share, it.who, it.bytes.is_some());
        let kinds = both.map(kind);
        let kind = (function, operation.communicator, operation.root, kinds);
        let amounts = both.map(|it| match it.bytes {
            Some(bytes) => (bytes, Vec::new()),
            None => (0, it.pieces.clone()),
        });
        if self.0.len() >= MOST && !self.0.contains_key(&kind) {
            return false;
        }
        match self.0.entry(kind) {
            Entry::Occupied(mut sum) => sum.get_mut().add(&amounts),
            Entry::Vacant(place) => {
                let operations = 1;
                place.insert(Sum {
                    operations,
                    amounts,
                });
            }
        }
        true
    }

    /// Returns all sums.
    pub(crate) fn moved(&self) -> Vec<Moved> {
        let each = self.0.iter().map(|(kind, sum)| {
            let (function, communicator, root, [sent, received]) = *kind;
            let amount =
                |(share, who, whole): (Share, Who, bool), sum: &(u64, Vec<u64>)| MovedAmount {
                    share,
                    who,
                    bytes: whole.then_some(sum.0),
                    pieces: sum.1.clone(),
                };
            Moved {
                function: super::name(function),
                operations: sum.operations,
                communicator,
                root,
                sent: amount(sent, &sum.amounts[0]),
                received: amount(received, &sum.amounts[1]),
            }
        });
        each.collect()
    }
}

impl Sum {
    fn add(&mut self, amounts: &[(u64, Vec<u64>); 2]) {
        self.operations = self.operations.saturating_add(1);
        for ((bytes, pieces), (more, next)) in self.amounts.iter_mut().zip(amounts) {
            *bytes = bytes.saturating_add(*more);
            // Values after the significant pieces are meaningless, and may be missing.
            pieces.truncate(next.len());
            for (piece, more) in pieces.iter_mut().zip(next) {
                *piece = piece.saturating_add(*more);
            }
        }
    }
}

/// Dropped collective operations that differ only in their amounts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// The function that was called.
    pub function: String,
    /// The number of operations.
    pub operations: u64,
    /// The communicator, by the process's own number.
    pub communicator: Option<u32>,
    /// The root, if the operation has one.
    pub root: Option<Peer>,
    /// Bytes that left the process's buffers.
    pub sent: MovedAmount,
    /// Bytes that entered the process's buffers.
    pub received: MovedAmount,
}

/// Total bytes of such operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovedAmount {
    /// The partners.
    pub share: Share,
    /// The members for which they count.
    pub who: Who,
    /// The bytes with each of `share`; `None` if they are in `pieces`.
    pub bytes: Option<u64>,
    /// The bytes with each member or neighbour.
    pub pieces: Vec<u64>,
}

impl Moved {
    /// Returns one operation that moves as much as all of them.
    pub fn as_one(&self) -> Collective {
        let amount = |it: &MovedAmount| Amount {
            bytes: it.bytes,
            pieces: it.pieces.clone(),
            share: it.share,
            who: it.who,
        };
        let operation = meaning_of(&self.function).and_then(Meaning::collective);
        Collective {
            operation,
            phase: Phase::Done,
            communicator: self.communicator,
            root: self.root,
            sent: amount(&self.sent),
            received: amount(&self.received),
        }
    }
}
