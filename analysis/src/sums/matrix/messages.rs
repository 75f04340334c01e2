//! Collective operations as the library's messages, by its own tables.
//!
//! Each member's call alone determines the messages that it sends. Equal calls are counted, and expanded together. Used for
//! each collective call of a trace, and once more at its end.

use std::collections::BTreeMap;

use belljar_collectives::{Algorithm, Call, Operation, Stage};
use belljar_job::{Expanded, Members};

use super::AlgorithmTraffic;
use super::sums::{Pairs, Sum};

/// Most distinct calls that are kept until they are expanded.
const MOST_CALLS: usize = 1 << 14;

/// Most pieces in them.
const MOST_PIECES: usize = 1 << 22;

/// Expands collective calls to messages.
#[derive(Debug, Default)]
pub(super) struct Expander {
    /// The number of each call, by the communicator's global number, with the number that one of its members gives it.
    calls: BTreeMap<(u32, Algorithm, Call, Vec<Stage>), u64>,
    /// Number of pieces in the kept calls.
    pieces: usize,
    members: BTreeMap<u32, Members>,
    algorithms: BTreeMap<(Operation, Algorithm), (u64, Sum)>,
}

impl Expander {
    /// Adds a member's call on a communicator with these members.
    pub(super) fn take(&mut self, expanded: Expanded, members: &Members, pairs: &mut Pairs) {
        let Expanded {
            communicator,
            algorithm,
            call,
            stages,
        } = expanded;
        self.members
            .entry(communicator)
            .or_insert_with(|| members.clone());
        let pieces = call.sent.len() + call.received.len();
        let count = self
            .calls
            .entry((communicator, algorithm, call, stages))
            .or_insert(0);
        if *count == 0 {
            self.pieces += pieces;
        }
        *count += 1;
        if self.calls.len() > MOST_CALLS || self.pieces > MOST_PIECES {
            self.expand(pairs);
        }
    }

    /// Expands the kept calls to messages.
    pub(super) fn expand(&mut self, pairs: &mut Pairs) {
        self.pieces = 0;
        for ((identity, algorithm, call, stages), count) in std::mem::take(&mut self.calls) {
            let Some(members) = self.members.get(&identity) else {
                continue;
            };
            let entry = self
                .algorithms
                .entry((call.operation, algorithm))
                .or_default();
            entry.0 += count;
            let Some(own) = members.get(call.rank) else {
                continue;
            };
            for (to, bytes) in algorithm.schedule_of(&call, &stages).sends() {
                let bytes = bytes.saturating_mul(count);
                entry.1.add(count, bytes);
                if let Some(to) = members.get(to) {
                    pairs.add(own, to, count, bytes);
                }
            }
        }
    }

    /// Returns the library's algorithm for each operation.
    pub(super) fn algorithms(&self) -> Vec<AlgorithmTraffic> {
        let algorithms = self.algorithms.iter();
        let algorithms =
            algorithms.map(|((operation, algorithm), (calls, sum))| AlgorithmTraffic {
                operation: operation.name(),
                algorithm: algorithm.name(),
                calls: *calls,
                messages: sum.messages,
                bytes: sum.bytes,
            });
        algorithms.collect()
    }
}
