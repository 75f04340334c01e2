//! Arguments of calls that begin operations and wait for them.
//!
//! The arguments are those of MPI's C binding, in its order. Called for each blocking call.

use super::arguments::{Arguments, Made, Output};
use super::{collective, windows};
use crate::job::{Action, Call, OperationId, SendMode};

/// A message's handle, of `MPI_Mprobe`.
const MESSAGE: u64 = 0xac10_0000;

impl Arguments<'_> {
    pub(super) fn blocking(&mut self, operation: OperationId) -> Made {
        let mut words = self.side(operation);
        words.push(self.communicator_of(operation));
        match self.job.operations[operation].action {
            Action::Send { mode, .. } => Made {
                name: match mode {
                    SendMode::Standard => "MPI_Send",
                    SendMode::Buffered => "MPI_Bsend",
                    SendMode::Synchronous => "MPI_Ssend",
                    SendMode::Ready => "MPI_Rsend",
                },
                words,
                outputs: Vec::new(),
            },
            Action::Nothing { sends: true, .. } => Made {
                name: "MPI_Send",
                words,
                outputs: Vec::new(),
            },
            Action::Receive { .. } | Action::Nothing { .. } => {
                let (status, outputs) = self.status(operation);
                words.push(status);
                Made {
                    name: "MPI_Recv",
                    words,
                    outputs,
                }
            }
            Action::Access {
                access,
                target,
                bytes,
            } => windows::access(self.library, access, target, bytes),
            Action::Collective { .. } => Made {
                name: collective::names(self.job, operation)[0],
                words: collective::words(self, operation),
                outputs: Vec::new(),
            },
        }
    }

    pub(super) fn exchange(&mut self, call: &Call) -> Made {
        let (sent, received) = (call.operations[0], call.operations[1]);
        let mut words = self.side(sent);
        words.extend(self.side(received));
        words.push(self.communicator_of(sent));
        let (status, outputs) = self.status(received);
        words.push(status);
        Made {
            name: "MPI_Sendrecv",
            words,
            outputs,
        }
    }

    pub(super) fn probe(&mut self, name: &'static str, operation: OperationId) -> Made {
        let side = self.side(operation);
        let mut words = vec![side[3], side[4], self.communicator_of(operation)];
        let mut outputs = Vec::new();
        if name == "MPI_Mprobe" {
            let message = self.guest.handles(&[0]);
            words.push(message);
            outputs.push(Output::Handle(message, self.message(operation)));
        }
        let status = self.guest.room(self.library.status);
        words.push(status);
        outputs.extend(self.filled(operation, status));
        Made {
            name,
            words,
            outputs,
        }
    }

    /// The handle of a matched message, which no other message has meanwhile.
    fn message(&self, operation: OperationId) -> u64 {
        self.library.made(MESSAGE + 4 * operation as u64)
    }

    pub(super) fn matched(&mut self, operation: OperationId) -> Made {
        let side = self.side(operation);
        let message = self.guest.handles(&[self.message(operation)]);
        let (status, outputs) = self.status(operation);
        let words = vec![side[0], side[1], side[2], message, status];
        Made {
            name: "MPI_Mrecv",
            words,
            outputs,
        }
    }
}
