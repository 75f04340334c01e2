//! Operations that `MPI_Start` begins, in traces of versions before 14.
//!
//! Before version 14 a start records amounts, root and communicator, but neither operation nor send mode. Both are taken
//! from the process's earlier calls that prepared a request with the same record. If such calls differ, the operation
//! stays unknown and the mode is the standard one. Used by the reader for each event of an earlier version.

use std::collections::{BTreeMap, BTreeSet};

use belljar_mpi::{CallKind, Operation};
use belljar_trace::{Collective, Event, Phase, Transfer, TransferKind};

/// Most prepared operations kept for a process, and for all.
const MOST_OF_PROCESS: usize = 1 << 10;
const MOST: usize = 1 << 16;

/// A process: its node and its number there.
type Process = (u32, u32);

/// The operations that calls prepared, by process.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    transfers: BTreeMap<Process, Vec<Transfer>>,
    collectives: BTreeMap<Process, Vec<Collective>>,
    kept: usize,
    /// Processes that prepared more than is kept: their operations stay unknown.
    full: BTreeSet<Process>,
}

impl Prepared {
    /// Records the operations that the event prepares, and completes the operations that it starts.
    pub(crate) fn explain(&mut self, event: &mut Event) {
        let process = (event.node, event.process);
        if event.meaning().kind == CallKind::Start {
            for transfer in &mut event.transfers {
                transfer.kind = self.transfer_kind(process, transfer);
            }
            for collective in &mut event.collectives {
                collective.operation = self.operation(process, collective);
            }
            return;
        }
        let phases = event.transfers.iter().map(|it| it.phase);
        let mut phases = phases.chain(event.collectives.iter().map(|it| it.phase));
        if event.failed() || !phases.any(|phase| phase == Phase::Prepared) {
            return;
        }
        let transfers = self.transfers.entry(process).or_default();
        let prepared = event.transfers.iter();
        let prepared = prepared.filter(|it| it.phase == Phase::Prepared);
        let mut whole = keep(transfers, prepared, &mut self.kept);
        let collectives = self.collectives.entry(process).or_default();
        let prepared = event.collectives.iter();
        let prepared = prepared.filter(|it| it.phase == Phase::Prepared);
        whole &= keep(collectives, prepared, &mut self.kept);
        if !whole {
            self.full.insert(process);
        }
    }

    fn transfer_kind(&self, process: Process, started: &Transfer) -> TransferKind {
        let known = self.transfers.get(&process).into_iter().flatten();
        let mut kinds = known
            .filter(|known| {
                let alike = Transfer {
                    phase: started.phase,
                    kind: started.kind,
                    ..(*known).clone()
                };
                alike == *started
            })
            .map(|known| known.kind);
        let first = kinds.next();
        let sure = kinds.all(|kind| Some(kind) == first) && !self.full.contains(&process);
        first.filter(|_| sure).unwrap_or(started.kind)
    }

    fn operation(&self, process: Process, started: &Collective) -> Option<Operation> {
        if self.full.contains(&process) {
            return None;
        }
        let known = self.collectives.get(&process).into_iter().flatten();
        let mut operations = known
            .filter(|known| {
                let alike = Collective {
                    phase: started.phase,
                    operation: started.operation,
                    ..(*known).clone()
                };
                alike == *started
            })
            .map(|known| known.operation);
        let first = operations.next()?;
        operations
            .all(|operation| operation == first)
            .then_some(first)?
    }
}

/// Adds new prepared operations to the known ones of a process. Returns false if there were too many to keep.
fn keep<'e, T: Clone + PartialEq + 'e>(
    known: &mut Vec<T>,
    prepared: impl Iterator<Item = &'e T>,
    kept: &mut usize,
) -> bool {
    for operation in prepared {
        if known.contains(operation) {
            continue;
        }
        if known.len() >= MOST_OF_PROCESS || *kept >= MOST {
            return false;
        }
        *kept += 1;
        known.push(operation.clone());
    }
    true
}
