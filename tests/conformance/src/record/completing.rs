//! Arguments of calls that complete requests.
//!
//! Requests and statuses are written before the call returns, as the library does. Called for each completing call.

use super::arguments::{Arguments, IGNORE, Made, NO_REQUEST, Output, STATUS};
use super::{asks_for_status, only};
use crate::job::{Call, OperationId};

impl Arguments<'_> {
    pub(super) fn wait(&mut self, call: &Call) -> Made {
        let handles: Vec<u64> = call.operations.iter().map(|it| self.request(*it)).collect();
        let requests = self.guest.handles(&handles);
        let mut outputs = self.gone(requests, call);
        // An array of statuses is for all requests of a call, or for none.
        let asks = asks_for_status(self.job, call);
        let statuses = if asks {
            self.guest.room(STATUS * handles.len() as u64)
        } else {
            IGNORE
        };
        if asks {
            for (place, operation) in (0u64..).zip(&call.operations) {
                outputs.extend(self.filled(*operation, statuses + STATUS * place));
            }
        }
        let (name, words) = match handles.len() {
            1 => ("MPI_Wait", vec![requests, statuses]),
            count => ("MPI_Waitall", vec![count as u64, requests, statuses]),
        };
        Made {
            name,
            words,
            outputs,
        }
    }

    /// Handles of requests that are over and not persistent become null.
    fn gone(&self, requests: u64, call: &Call) -> Vec<Output> {
        let places = (0u64..).zip(&call.operations);
        let gone = places.filter(|(_, it)| self.job.operations[**it].persistent.is_none());
        gone.map(|(place, _)| Output::Handle(requests + 4 * place, NO_REQUEST))
            .collect()
    }

    pub(super) fn test(&mut self, call: &Call) -> Made {
        let operation = only(call);
        let requests = self.guest.handles(&[self.request(operation)]);
        let flag = self.guest.ints(&[0]);
        let (status, filled) = self.status(operation);
        let mut outputs = Vec::new();
        if self.executed.found {
            outputs = self.gone(requests, call);
            outputs.push(Output::Int(flag, 1));
            outputs.extend(filled);
        }
        Made {
            name: "MPI_Test",
            words: vec![requests, flag, status],
            outputs,
        }
    }

    /// `MPI_Waitsome` or `MPI_Waitany`, which earlier calls with the same requests went before.
    pub(super) fn wait_each(&mut self, call: &Call, several: bool) -> Made {
        let before = self.completed_before();
        let is_gone =
            |it: &OperationId| before.contains(it) && self.job.operations[*it].persistent.is_none();
        let handles = call.operations.iter().map(|it| match is_gone(it) {
            true => NO_REQUEST,
            false => self.request(*it),
        });
        let handles: Vec<u64> = handles.collect();
        let requests = self.guest.handles(&handles);
        let completed = &self.executed.completed;
        let asks = asks_for_status(self.job, call);
        let count = handles.len() as u64;
        let statuses = if asks {
            self.guest.room(STATUS * count)
        } else {
            IGNORE
        };
        let [number, indices] = [1, handles.len()].map(|room| self.guest.ints(&vec![0; room]));
        let mut outputs = vec![Output::Int(number, completed.len() as i32)];
        for (place, operation) in (0u64..).zip(completed) {
            let index = call.operations.iter().position(|it| it == operation);
            let index = index.unwrap_or(0);
            outputs.push(Output::Int(indices + 4 * place, index as i32));
            if asks {
                outputs.extend(self.filled(*operation, statuses + STATUS * place));
            }
            if self.job.operations[*operation].persistent.is_none() {
                outputs.push(Output::Handle(requests + 4 * index as u64, NO_REQUEST));
            }
        }
        let (name, words) = match several {
            true => (
                "MPI_Waitsome",
                vec![count, requests, number, indices, statuses],
            ),
            false => ("MPI_Waitany", vec![count, requests, indices, statuses]),
        };
        Made {
            name,
            words,
            outputs,
        }
    }

    /// The operations that earlier calls with the same requests have completed.
    fn completed_before(&self) -> Vec<OperationId> {
        let own = self.executed;
        let calls = self.execution.calls.iter();
        let before =
            calls.filter(|it| it.actor == own.actor && it.call == own.call && it.entry < own.entry);
        before.flat_map(|it| it.completed.iter().copied()).collect()
    }
}
