//! Requests that are not complete.
//!
//! A trace numbers the requests of a process; formats want what each stood for when it completes, and one number for each
//! operation. Here both are kept, for each process as many as `MOST`. Called by the source.

use std::collections::BTreeMap;

use belljar_trace::Peer;

use crate::calls::Collected;
use crate::matched::Receipt;

/// Requests of a process that may be open.
const MOST: usize = 1 << 16;

/// What a request stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// A message that is sent.
    Send,
    /// A message that is wanted, as the call told it.
    Receive {
        /// The communicator, by the process's own number.
        communicator: Option<u32>,
        /// From whom.
        peer: Peer,
        /// With which tag.
        tag: Option<i32>,
        /// The receipt of its posting.
        receipt: Receipt,
    },
    /// A part in a collective operation.
    Collective(Collected),
}

/// One process's.
#[derive(Debug, Default)]
struct Own {
    /// How many operations there were.
    count: u64,
    /// By the trace's number.
    open: BTreeMap<u64, Vec<(u64, Pending)>>,
}

/// All processes' requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    processes: BTreeMap<u32, Own>,
}

impl Requests {
    /// The number of a process's next operation, from 1.
    pub(crate) fn number(&mut self, process: u32) -> u64 {
        let own = self.processes.entry(process).or_default();
        own.count += 1;
        own.count
    }

    /// A request stands for these operations, by number. Returns whether another one was forgotten for it.
    pub(crate) fn open(
        &mut self,
        process: u32,
        request: u64,
        operations: Vec<(u64, Pending)>,
    ) -> bool {
        let own = self.processes.entry(process).or_default();
        own.open.insert(request, operations);
        own.open.len() > MOST && own.open.pop_first().is_some()
    }

    /// A request is complete: what it stood for.
    pub(crate) fn close(&mut self, process: u32, request: u64) -> Vec<(u64, Pending)> {
        let own = self.processes.get_mut(&process);
        own.and_then(|own| own.open.remove(&request))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_completes_is_forgotten_in_the_end() {
        let mut requests = Requests::default();
        for request in 0..MOST as u64 {
            assert!(!requests.open(0, request, vec![(request, Pending::Send)]));
        }
        assert!(requests.open(0, MOST as u64, vec![(9, Pending::Send)]));
        assert!(requests.close(0, 0).is_empty());
        assert_eq!(requests.close(0, MOST as u64), [(9, Pending::Send)]);
        assert!(requests.close(1, 1).is_empty());
    }
}
