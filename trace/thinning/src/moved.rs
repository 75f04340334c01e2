//! What collective operations of dropped calls moved.
//!
//! How much that is for a process depends on its communicator, which is known when the whole trace is: so sums are kept of
//! operations that are alike but for their amounts. Bounded: operations of more than `MOST` kinds are only counted. Called by
//! `follower`, and where a trace's statistics are made.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use belljar_mpi::{Meaning, meaning_of};
use belljar_trace::{Amount, Collective, Peer, Phase, Share, Who};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Kinds of operations of a thread.
const MOST: usize = 4096;

/// What makes operations alike: function, communicator, root, and with and for whom each of both amounts is, and whether it is
/// told as a whole.
type Kind = (u16, Option<u32>, Option<Peer>, [(Share, Who, bool); 2]);

/// Sums over operations of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Sum {
    operations: u64,
    /// What went out and what came in: bytes, or pieces.
    amounts: [(u64, Vec<u64>); 2],
}

/// Sums by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Operations(BTreeMap<Kind, Sum>);

impl Operations {
    /// Adds an operation of a call of `function`. Returns whether there was room for it.
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

    /// All of them.
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
            // What follows the pieces that count means nothing, and need not be there.
            pieces.truncate(next.len());
            for (piece, more) in pieces.iter_mut().zip(next) {
                *piece = piece.saturating_add(*more);
            }
        }
    }
}

/// Collective operations that were dropped, alike but for how much they moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// The function that was called.
    pub function: String,
    /// How many.
    pub operations: u64,
    /// The communicator, by the process's own number.
    pub communicator: Option<u32>,
    /// The root, where the operation has one.
    pub root: Option<Peer>,
    /// What went out of the process's buffers.
    pub sent: MovedAmount,
    /// What came into them.
    pub received: MovedAmount,
}

/// Bytes of such operations together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovedAmount {
    /// With whom.
    pub share: Share,
    /// For whom they count.
    pub who: Who,
    /// How many with each of `share`; `None` where `pieces` tells.
    pub bytes: Option<u64>,
    /// With each member or neighbour.
    pub pieces: Vec<u64>,
}

impl Moved {
    /// One operation that moves as much as all of them.
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
