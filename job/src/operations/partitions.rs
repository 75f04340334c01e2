//! Messages in partitions (MPI-4.0, 4).
//!
//! A partitioned request keeps its number across starts; its calls that make partitions ready or ask for arrived ones
//! name the number. Called for each operation that begins and for each such call.

use std::collections::BTreeMap;

use belljar_mpi::CallKind;
use belljar_trace::Event;

use super::ProcessCall;
use super::fact::{Fact, OperationId};
use super::requests::OpenOperation;
use crate::communicators::ProcessKey;

/// Partitioned requests that are followed at once, on each side.
const MOST_PARTITIONED: usize = 1 << 20;

/// The operation of each partitioned request, by process and by the process's own number.
type Sides = BTreeMap<(ProcessKey, u32), OperationId>;

/// Partitioned requests that were started.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    sends: Sides,
    receives: Sides,
}

impl Partitions {
    pub(super) fn sends(&mut self, process: ProcessKey, number: Option<u32>, open: OpenOperation) {
        insert(&mut self.sends, process, number, open);
    }

    pub(super) fn receives(
        &mut self,
        process: ProcessKey,
        number: Option<u32>,
        open: OpenOperation,
    ) {
        insert(&mut self.receives, process, number, open);
    }

    /// Handles a call that makes partitions ready, or found one arrived.
    pub(super) fn ready(&self, call: ProcessCall<'_>, facts: &mut Vec<Fact>) {
        let Some(details) = &call.event.details.0 else {
            return;
        };
        let [Some(number)] = details.partitioned.as_slice() else {
            return;
        };
        let request = (call.process, *number);
        if call.event.meaning().kind == CallKind::Ready {
            let send = self.sends.get(&request).copied();
            facts.extend(send.map(|send| Fact::Ready { send }));
        } else if details.over {
            let receive = self.receives.get(&request).copied();
            facts.extend(receive.map(|receive| Fact::Arrived { receive }));
        }
    }
}

fn insert(sides: &mut Sides, process: ProcessKey, number: Option<u32>, open: OpenOperation) {
    if let Some(number) = number {
        sides.insert((process, number), open.operation);
        if sides.len() > MOST_PARTITIONED {
            sides.pop_first();
        }
    }
}

/// The number of the partitioned request that a transfer belongs to, in a call that starts it.
pub(super) fn partitioned(event: &Event, index: usize) -> Option<u32> {
    let all = &event.details.0.as_ref()?.partitioned;
    // Each request has one operation; else the trace does not map requests to transfers.
    let operations = event.transfers.len() + event.collectives.len();
    let told = all.len() == event.transfers.len() && event.started.len() == operations;
    *all.get(index).filter(|_| told)?
}
