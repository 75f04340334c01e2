//! Arguments of calls that complete requests.
//!
//! Requests and statuses are written before the call returns, as the library does. Called for each completing call.

use super::arguments::{Arguments, Made, Output};
use super::asks_for_status;
use crate::job::{Call, Each, OperationId};

/// `MPI_UNDEFINED`.
const UNDEFINED: i32 = -32766;

impl Arguments<'_> {
    pub(super) fn wait(&mut self, call: &Call) -> Made {
        let handles: Vec<u64> = call.operations.iter().map(|it| self.request(*it)).collect();
        let requests = self.requests_of(&handles);
        let mut outputs = self.gone(requests, call);
        let statuses = self.statuses(call);
        if statuses != self.library.ignore {
            for (place, operation) in (0u64..).zip(&call.operations) {
                outputs.extend(self.filled(*operation, statuses + self.library.status * place));
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

    /// The address of a call's requests, the same for all polls, as different addresses would make them different.
    fn requests_of(&mut self, handles: &[u64]) -> u64 {
        let width = self.library.handle;
        let call = (self.executed.actor, self.executed.call);
        let polled = self.polled.entry(call);
        let room = || self.guest.room(width * handles.len() as u64);
        let at = *polled.or_insert_with(room);
        for (place, handle) in (0u64..).zip(handles) {
            self.guest.put_handle(at + width * place, *handle);
        }
        at
    }

    /// Handles of requests that are over and not persistent become null.
    fn gone(&self, requests: u64, call: &Call) -> Vec<Output> {
        let places = (0u64..).zip(&call.operations);
        let gone = places.filter(|(_, it)| self.job.operations[**it].persistent.is_none());
        gone.map(|(place, _)| {
            Output::Handle(
                requests + self.library.handle * place,
                self.library.no_request,
            )
        })
        .collect()
    }

    /// `MPI_Test` or `MPI_Testall`.
    pub(super) fn test(&mut self, call: &Call) -> Made {
        let handles: Vec<u64> = call.operations.iter().map(|it| self.request(*it)).collect();
        let requests = self.requests_of(&handles);
        let flag = self.guest.ints(&[0]);
        let statuses = self.statuses(call);
        let mut outputs = Vec::new();
        if self.executed.found {
            outputs = self.gone(requests, call);
            outputs.push(Output::Int(flag, 1));
            for (place, operation) in (0u64..).zip(&call.operations) {
                if statuses != self.library.ignore {
                    outputs.extend(self.filled(*operation, statuses + self.library.status * place));
                }
            }
        }
        let (name, words) = match handles.len() {
            1 => ("MPI_Test", vec![requests, flag, statuses]),
            count => ("MPI_Testall", vec![count as u64, requests, flag, statuses]),
        };
        Made {
            name,
            words,
            outputs,
        }
    }

    /// Room for the statuses of a call, if any of its receives requests one: an array is for all requests or for no
    /// request.
    fn statuses(&mut self, call: &Call) -> u64 {
        match asks_for_status(self.job, call) {
            true => self
                .guest
                .room(self.library.status * call.operations.len() as u64),
            false => self.library.ignore,
        }
    }

    /// The handles of a call's requests, which earlier calls with the same ones have completed in part.
    fn left(&self, call: &Call) -> Vec<u64> {
        let before = self.completed_before();
        let is_gone =
            |it: &OperationId| before.contains(it) && self.job.operations[*it].persistent.is_none();
        let handles = call.operations.iter().map(|it| match is_gone(it) {
            true => self.library.no_request,
            false => self.request(*it),
        });
        handles.collect()
    }

    /// `MPI_Waitany`, `MPI_Waitsome`, `MPI_Testany` or `MPI_Testsome`.
    pub(super) fn complete_each(&mut self, call: &Call, each: Each) -> Made {
        let handles = self.left(call);
        let requests = self.requests_of(&handles);
        let completed = &self.executed.completed;
        let statuses = self.statuses(call);
        let count = handles.len() as u64;
        let number = self.guest.ints(&[0]);
        let indices = self.guest.ints(&vec![UNDEFINED; handles.len()]);
        // The number is a flag where there is one at most.
        let mut outputs = vec![Output::Int(number, completed.len() as i32)];
        for (place, operation) in (0u64..).zip(completed) {
            let index = call.operations.iter().position(|it| it == operation);
            let index = index.unwrap_or(0);
            outputs.push(Output::Int(indices + 4 * place, index as i32));
            if statuses != self.library.ignore {
                outputs.extend(self.filled(*operation, statuses + self.library.status * place));
            }
            if self.job.operations[*operation].persistent.is_none() {
                outputs.push(Output::Handle(
                    requests + self.library.handle * index as u64,
                    self.library.no_request,
                ));
            }
        }
        let several = vec![count, requests, number, indices, statuses];
        let (name, words) = match each {
            Each::Waitany => ("MPI_Waitany", vec![count, requests, indices, statuses]),
            Each::Testany => (
                "MPI_Testany",
                vec![count, requests, indices, number, statuses],
            ),
            Each::Waitsome => ("MPI_Waitsome", several),
            Each::Testsome => ("MPI_Testsome", several),
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
