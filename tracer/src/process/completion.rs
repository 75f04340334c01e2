//! Completions by the `Wait` and `Test` families, and their outcomes.
//!
//! Without an error, all requests of the call are complete. After `MPI_ERR_IN_STATUS` each status has its own outcome (MPI-4.0,
//! 3.7.5): done, failed, or neither (`MPI_ERR_PENDING`). Without a status, the handle decides: its request is gone if it has
//! changed.

use belljar_mpi::{Base, Completes};
use belljar_trace::{Completion, Ending, Status};

use super::Process;
use crate::decode::arguments::Arguments;
use belljar_trace::UNDEFINED;

/// A request that a call may have completed: the indices of its handle and of its status.
type RequestIndices = (u64, u64);

impl Process {
    /// Completes the requests of a call with this result; `handles` are those at its entry.
    pub(super) fn complete(
        &mut self,
        how: Completes,
        handles: &[u64],
        result: i64,
        arguments: &mut Arguments<'_>,
    ) -> Vec<Completion> {
        if arguments.has("flag") && arguments.integer("flag").unwrap_or(0) == 0 {
            return Vec::new();
        }
        let (statuses, places) = places(how, handles, arguments);
        let left = (result != 0).then(|| left(how, handles, arguments));
        let mut completed = Vec::new();
        // Backwards, because the latest of requests that share a handle goes first.
        for (place, position) in places.into_iter().rev() {
            let Ok(place) = usize::try_from(place) else {
                continue;
            };
            let Some(&handle) = handles.get(place) else {
                continue;
            };
            let ending = match &left {
                None => Some(Ending::Well),
                Some(left) => {
                    let gone = left.get(place).is_some_and(|now| *now != handle);
                    let error = arguments.status_error(statuses, position);
                    self.ending(how, handle, gone, result, error, arguments)
                }
            };
            let Some(ending) = ending else {
                continue;
            };
            let status = self.status_of(handle, statuses, position, arguments);
            completed.extend(self.requests.complete(handle, status, ending));
        }
        completed.reverse();
        completed
    }

    /// Returns the status of the receive that `handle` stands for: as the library wrote it, or as observed if the program ignores
    /// it.
    fn status_of(
        &mut self,
        handle: u64,
        statuses: &str,
        position: u64,
        arguments: &mut Arguments<'_>,
    ) -> Option<Status> {
        let (operation, transfer) = self.requests.receives(handle)?;
        let memory = arguments.memory();
        let observed = operation.receive.and_then(|receive| {
            let library = self.implementation.library();
            let status =
                self.receives
                    .take(receive, transfer, operation.partners, library, memory)?;
            let is_own =
                !status.cancelled || receive.may_have_handle(handle, self.implementation, memory);
            is_own.then_some(status)
        });
        match arguments.ignores_status(statuses) {
            true => observed,
            false => arguments.status(statuses, position),
        }
    }

    /// Returns the outcome of a request of a call that returned the error `result`; `None` if it did not end. `error` is taken from
    /// its status.
    fn ending(
        &self,
        how: Completes,
        handle: u64,
        gone: bool,
        result: i64,
        error: Option<i32>,
        arguments: &Arguments<'_>,
    ) -> Option<Ending> {
        let implementation = arguments.implementation;
        let several = matches!(how, Completes::All | Completes::Some);
        if several && implementation.is_error_in_status(result) {
            return match error {
                Some(0) => Some(Ending::Well),
                Some(error) if implementation.is_pending(error) => None,
                Some(error) => Some(Ending::Error(error)),
                None => gone.then_some(Ending::Untold),
            };
        }
        // A persistent request keeps its handle.
        let over = !several
            && self.requests.is_persistent(handle)
            && !implementation.refused_arguments(result)
            && !implementation.is_pending(result as i32);
        let error = Ending::Error(i32::try_from(result).unwrap_or(i32::MAX));
        (gone || over).then_some(error)
    }
}

/// Returns the argument with the statuses, and the requests that the call may have completed.
fn places(
    how: Completes,
    handles: &[u64],
    arguments: &mut Arguments<'_>,
) -> (&'static str, Vec<RequestIndices>) {
    match how {
        Completes::One => ("status", vec![(0, 0)]),
        Completes::All => {
            let places = (0..handles.len() as u64).map(|place| (place, place));
            ("array_of_statuses", places.collect())
        }
        Completes::Any => {
            let place = arguments
                .integer("indx")
                .and_then(|at| u64::try_from(at).ok());
            (
                "status",
                place.map(|place| (place, 0)).into_iter().collect(),
            )
        }
        Completes::Some => ("array_of_statuses", some(handles, arguments)),
    }
}

/// Returns the handles after the call.
fn left(how: Completes, handles: &[u64], arguments: &mut Arguments<'_>) -> Vec<u64> {
    let left = match how {
        Completes::One => arguments
            .pointed_handle(Base::Request)
            .map(|handle| vec![handle]),
        _ => arguments.handles("array_of_requests", handles.len() as u64),
    };
    left.unwrap_or_default()
}

/// Returns the indices of completed requests that `MPI_Waitsome` and `MPI_Testsome` return.
fn some(handles: &[u64], arguments: &mut Arguments<'_>) -> Vec<RequestIndices> {
    let count = arguments.integer("outcount").unwrap_or(UNDEFINED);
    let count = u64::try_from(count).unwrap_or(0).min(handles.len() as u64);
    if count == 0 {
        return Vec::new();
    }
    let indices = arguments.integers("array_of_indices", count);
    let indices = indices.unwrap_or_default().into_iter().zip(0..);
    indices
        .filter_map(|(index, position)| Some((u64::try_from(index).ok()?, position)))
        .collect()
}
