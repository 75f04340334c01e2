//! Receives that a process's MPI library posted, by the library's requests.
//!
//! A library reuses its requests, so each posting has a number: a match only applies to the posting for which it was noted. The number
//! of requests is bounded; further ones lose their match. Part of a process's state, kept by checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::{Implementation, MpiLibrary, Peer, Status, Transfer};
use bincode::{Decode, Encode};

use super::ob1;
use crate::guest::memory::Reader;

/// Most requests of a process's library that are kept.
const MOST_REQUESTS: usize = 1 << 16;

/// Most watched callbacks of a process's library. MPICH has a copy for each source file that posts receives.
const MOST_CALLBACKS: usize = 1 << 8;

/// Source and tag that a receive requests; `None` for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ReceiveCriteria {
    pub(crate) source: Option<u32>,
    pub(crate) tag: Option<i32>,
}

/// One posting of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct PostedReceive {
    /// The library's request.
    pub(crate) request: u64,
    number: u64,
    asked: Option<ReceiveCriteria>,
}

impl PostedReceive {
    /// True if it may be the start of the persistent request with this `handle`, which requests the message of `transfer`. Open MPI's
    /// handles are its requests.
    pub(crate) fn starts(&self, handle: u64, transfer: &Transfer) -> bool {
        match self.asked {
            Some(_) => self.is_of(transfer),
            None => self.request == handle,
        }
    }

    /// False if the program has another handle for it. MPICH creates a request for each transport of a receive from any source, and
    /// cancels all except the one that received the message. Only one of them has the handle of the program.
    pub(crate) fn may_have_handle(
        &self,
        handle: u64,
        implementation: Implementation,
        memory: Reader<'_>,
    ) -> bool {
        match implementation {
            // The first word of a request is its handle.
            Implementation::Mpich => memory
                .u64(self.request)
                .map_or(true, |word| u64::from(word as u32) == handle),
            Implementation::OpenMpi => true,
            Implementation::StandardAbi(_) => self.request == handle,
        }
    }

    /// True if it requests the message of `transfer`.
    pub(crate) fn is_of(&self, transfer: &Transfer) -> bool {
        let Some(asked) = self.asked else {
            return true;
        };
        let source = match (transfer.peer, asked.source) {
            (Peer::Any, None) => true,
            // UCX's tags have 16 bits of the rank.
            (Peer::Rank(rank), Some(source)) => rank & 0xffff == source,
            _ => false,
        };
        source && transfer.tag == asked.tag
    }
}

/// A message that a receive matched, or its cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ReceivedMessage {
    pub(crate) source: u32,
    pub(crate) tag: i32,
    pub(crate) bytes: u64,
    pub(crate) cancelled: bool,
}

impl ReceivedMessage {
    /// The receive was cancelled, without a message.
    pub(crate) const CANCELLED: Self = Self {
        source: 0,
        tag: 0,
        bytes: 0,
        cancelled: true,
    };

    /// Returns the status of the receive `transfer` on a communicator with `partners`; `None` if both disagree.
    fn status(self, transfer: &Transfer, partners: Option<u32>) -> Option<Status> {
        if self.cancelled {
            return Some(Status {
                source: Peer::Any,
                tag: transfer.tag.unwrap_or(0),
                bytes: 0,
                cancelled: true,
                observed: true,
            });
        }
        let source = match transfer.peer {
            Peer::Rank(rank) => rank == self.source,
            Peer::Any => partners.is_none_or(|partners| self.source < partners),
            _ => false,
        };
        let tag = transfer
            .tag
            .map_or(self.tag >= 0, |asked| asked == self.tag);
        let room = transfer.datatype.size().map(|_| transfer.bytes);
        let fits = room.is_none_or(|room| self.bytes <= room);
        (source && tag && fits).then_some(Status {
            source: Peer::Rank(self.source),
            tag: self.tag,
            bytes: self.bytes,
            cancelled: false,
            observed: true,
        })
    }
}

/// The latest posting of a request.
#[derive(Clone, Copy, Debug, Encode, Decode)]
struct Posting {
    number: u64,
    message: Option<ReceivedMessage>,
}

/// Receives that a process's library posted and that are not yet completed.
#[derive(Debug, Default, Encode, Decode)]
pub(crate) struct LibraryReceives {
    by_request: BTreeMap<u64, Posting>,
    callbacks: BTreeSet<u64>,
    next: u64,
}

impl LibraryReceives {
    /// Adds the library's receive with `request`.
    pub(crate) fn post(&mut self, request: u64, asked: Option<ReceiveCriteria>) -> PostedReceive {
        let number = self.next;
        self.next = number.wrapping_add(1);
        let posting = Posting {
            number,
            message: None,
        };
        if self.by_request.len() < MOST_REQUESTS || self.by_request.contains_key(&request) {
            self.by_request.insert(request, posting);
        }
        PostedReceive {
            request,
            number,
            asked,
        }
    }

    /// Adds the address of a callback; true if it is to be watched from now on.
    pub(crate) fn learn_callback(&mut self, callback: u64) -> bool {
        self.callbacks.len() < MOST_CALLBACKS && self.callbacks.insert(callback)
    }

    /// True if the library's callback is at `address`.
    pub(crate) fn is_callback(&self, address: u64) -> bool {
        self.callbacks.contains(&address)
    }

    /// Returns the watched callbacks.
    pub(crate) fn callbacks(&self) -> impl Iterator<Item = u64> {
        self.callbacks.iter().copied()
    }

    /// Records that the latest receive of `request` matched `message`; `None` after an error.
    pub(crate) fn match_message(&mut self, request: u64, message: Option<ReceivedMessage>) {
        if let Some(posting) = self.by_request.get_mut(&request) {
            posting.message = message;
        }
    }

    /// Takes the posting of a receive that a call completed. Returns the status for `transfer`, on a communicator with `partners`.
    pub(crate) fn take(
        &mut self,
        receive: PostedReceive,
        transfer: &Transfer,
        partners: Option<u32>,
        library: MpiLibrary,
        memory: Reader<'_>,
    ) -> Option<Status> {
        let latest = self.by_request.get(&receive.request)?;
        if latest.number != receive.number {
            return None;
        }
        let posting = self.by_request.remove(&receive.request)?;
        let message = match library {
            MpiLibrary::Mpich => posting.message,
            MpiLibrary::OpenMpi => ob1::message(receive.request, memory),
            MpiLibrary::Unknown => None,
        };
        message?.status(transfer, partners)
    }

    /// True if its size is within the limits.
    pub(crate) fn is_sound(&self) -> bool {
        self.by_request.len() <= MOST_REQUESTS && self.callbacks.len() <= MOST_CALLBACKS
    }
}
