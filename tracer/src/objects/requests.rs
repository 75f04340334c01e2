//! The requests of a process, from the call that created them to their completion.
//!
//! A request's number is the process's own and new with each activation, so an event's completions are unambiguous. Their number
//! is bounded. Used when calls return.

use belljar_trace::{Collective, Completion, Direction, Ending, Peer, Phase, Status, Transfer};
use bincode::{Decode, Encode};

use crate::objects::registry::Registry;
use crate::receives::posted::PostedReceive;

/// Most requests of a process, over all handles.
const MAX_REQUESTS: usize = 1 << 16;

/// The operation of a request.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(crate) struct Requested {
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) collectives: Vec<Collective>,
    /// The number of possible senders of a receive, if known.
    pub(crate) partners: Option<u32>,
    /// The library's receive, if known.
    pub(crate) receive: Option<PostedReceive>,
}

/// A request.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(crate) struct Request {
    operation: Requested,
    persistent: bool,
    /// For a persistent request, its number among these.
    prepared: Option<u32>,
    /// For a partitioned request, its number among these.
    partitioned: Option<u32>,
    /// The number of its activation, if it is active.
    active: Option<u64>,
}

/// Requests by handle.
///
/// A handle may stand for several requests at once: both implementations return a shared handle for sends that completed
/// immediately. The latest are completed first; between requests that share a handle it makes no difference.
#[derive(Debug, Default, Encode, Decode)]
pub(crate) struct Requests {
    by_handle: Registry<Vec<Request>>,
    total: usize,
    forgotten: u64,
    next: u64,
    next_prepared: u32,
    next_partitioned: u32,
}

impl Requests {
    /// Adds the request of an operation that a call began, with the returned `handle`. Returns the request's number.
    pub(crate) fn begin(&mut self, handle: u64, operation: Requested) -> u64 {
        let number = self.number();
        self.push(
            handle,
            Request {
                operation,
                persistent: false,
                prepared: None,
                partitioned: None,
                active: Some(number),
            },
        );
        number
    }

    /// Adds a prepared persistent request with the returned `handle`. Returns its number among persistent requests.
    pub(crate) fn prepare(&mut self, handle: u64, operation: Requested) -> u32 {
        self.prepare_with(handle, operation, None)
    }

    /// The same for a partitioned request (MPI-4.0, 4). Returns its numbers among persistent and among partitioned requests.
    pub(crate) fn prepare_partitioned(&mut self, handle: u64, operation: Requested) -> (u32, u32) {
        let number = self.next_partitioned;
        self.next_partitioned = number.wrapping_add(1);
        let prepared = self.prepare_with(handle, operation, Some(number));
        (prepared, number)
    }

    fn prepare_with(&mut self, handle: u64, operation: Requested, partitioned: Option<u32>) -> u32 {
        let number = self.next_prepared;
        self.next_prepared = number.wrapping_add(1);
        // Persistent requests have no shared handles: an earlier request with this handle is gone.
        let gone = self.by_handle.remove(handle);
        self.total -= gone.map_or(0, |gone| gone.len());
        self.push(
            handle,
            Request {
                operation,
                persistent: true,
                prepared: Some(number),
                partitioned,
                active: None,
            },
        );
        number
    }

    /// Starts a persistent request. Returns its new number, and its transfers and collective operations. The library's receive is
    /// the first matching one of `posted`, from which it is removed.
    pub(crate) fn start(
        &mut self,
        handle: u64,
        posted: &mut Vec<PostedReceive>,
    ) -> Option<(u64, Vec<Transfer>, Vec<Collective>)> {
        let number = self.next;
        let request = self.by_handle.get_mut(handle)?.last_mut()?;
        if !request.persistent {
            return None;
        }
        self.next += 1;
        request.active = Some(number);
        let receive = receive(request).filter(|receive| receive.peer != Peer::Null);
        let own =
            receive.and_then(|receive| posted.iter().position(|it| it.starts(handle, receive)));
        request.operation.receive = own.map(|position| posted.remove(position));
        let mut transfers = request.operation.transfers.clone();
        let mut collectives = request.operation.collectives.clone();
        for transfer in &mut transfers {
            transfer.phase = Phase::Begun;
        }
        for collective in &mut collectives {
            collective.phase = Phase::Begun;
        }
        Some((number, transfers, collectives))
    }

    /// Completes the request of `handle` with this ending, and this status if the program requested it.
    pub(crate) fn complete(
        &mut self,
        handle: u64,
        status: Option<Status>,
        ending: Ending,
    ) -> Option<Completion> {
        let requests = self.by_handle.get_mut(handle)?;
        let request = requests.last_mut()?;
        let number = request.active.take()?;
        let completion = completion(request, number, status, ending);
        if !request.persistent {
            self.free(handle);
        }
        Some(completion)
    }

    /// Removes the latest request of `handle`.
    pub(crate) fn free(&mut self, handle: u64) {
        let Some(requests) = self.by_handle.get_mut(handle) else {
            return;
        };
        if requests.pop().is_some() {
            self.total -= 1;
        }
        if requests.is_empty() {
            self.by_handle.remove(handle);
        }
    }

    /// True if the number of requests equals the count.
    pub(crate) fn is_sound(&self) -> bool {
        self.by_handle.iter().map(Vec::len).sum::<usize>() == self.total
    }

    /// Returns the number of the persistent request that a handle stands for, among these; `None` for other requests.
    pub(crate) fn prepared(&self, handle: u64) -> Option<u32> {
        self.by_handle.get(handle)?.last()?.prepared
    }

    /// True if a handle stands for a collective operation.
    pub(crate) fn is_collective(&self, handle: u64) -> bool {
        let request = self.by_handle.get(handle).and_then(|all| all.last());
        request.is_some_and(|request| !request.operation.collectives.is_empty())
    }

    /// Returns the number of the partitioned request that a handle stands for, among these; `None` for other requests.
    pub(crate) fn partitioned(&self, handle: u64) -> Option<u32> {
        self.by_handle.get(handle)?.last()?.partitioned
    }

    /// True if a handle stands for a persistent request.
    pub(crate) fn is_persistent(&self, handle: u64) -> bool {
        let request = self.by_handle.get(handle).and_then(|all| all.last());
        request.is_some_and(|request| request.persistent)
    }

    /// Returns the operation of an active receive request, and its receive.
    pub(crate) fn receives(&self, handle: u64) -> Option<(&Requested, &Transfer)> {
        let request = self.by_handle.get(handle)?.last()?;
        request.active?;
        Some((&request.operation, receive(request)?))
    }

    pub(crate) fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    fn push(&mut self, handle: u64, request: Request) {
        if self.total >= MAX_REQUESTS
            && let Some(gone) = self.by_handle.pop_first()
        {
            self.total -= gone.len();
            self.forgotten += gone.len() as u64;
        }
        self.total += 1;
        match self.by_handle.get_mut(handle) {
            Some(requests) => requests.push(request),
            None => self.by_handle.insert(handle, vec![request]),
        }
    }
}

fn receive(request: &Request) -> Option<&Transfer> {
    let mut transfers = request.operation.transfers.iter();
    transfers.find(|transfer| transfer.direction == Direction::Receive)
}

fn completion(
    request: &Request,
    number: u64,
    status: Option<Status>,
    ending: Ending,
) -> Completion {
    let receive = receive(request).filter(|_| !matches!(ending, Ending::Error(_)));
    let Some(receive) = receive else {
        return Completion {
            request: number,
            status: None,
            received: 0,
            exact: true,
            ending,
        };
    };
    let (received, exact) = match status {
        // One-sided access, or a message from `MPI_PROC_NULL`: known from the start.
        _ if receive.exact => (receive.bytes, true),
        Some(status) if status.cancelled => (0, true),
        Some(status) => (status.bytes, true),
        None => (receive.bytes, false),
    };
    Completion {
        request: number,
        status,
        received,
        exact,
        ending,
    }
}
