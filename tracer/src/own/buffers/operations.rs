//! Operations in progress of a process, and the memory that they own.
//!
//! An operation is here from the return of its call to the return of the call that completes it, and all tables are bounded. Where requests
//! cannot be told apart, all of their operations end, so that later accesses are missed instead of being reported wrongly; a program that exchanges
//! the variables of equal handles is the exception. Called by the watched buffers of a node, at returns of calls.

use std::collections::{BTreeMap, BTreeSet};

use belljar_mpi::{CallKind, Epoch, Object};
use belljar_trace::Event;
use bincode::{Decode, Encode};

use super::partitions::PartitionedBuffers;
use super::window::WindowAccesses;
use crate::decode::arguments::Arguments;
use crate::guest::memory::Reader;
use crate::process::buffers::request_variables;

/// Most operations of a process whose buffers are watched at once.
const MOST_OPERATIONS: usize = 1 << 12;
/// Most prepared operations of a process.
const MOST_PREPARED: usize = 1 << 12;
/// Most ranges that the operations of a process own, of those in progress and of prepared ones.
const MOST_OWNED: usize = 1 << 16;

/// The role of memory in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum BufferRole {
    /// Read by a send or a collective operation.
    Send,
    /// Written by a receive or a collective operation.
    Receive,
    /// Read by an access to a window.
    Origin,
    /// Written by an access to a window.
    Result,
    /// Memory of a window.
    Window,
}

impl BufferRole {
    /// True if the program must not load from it.
    pub(super) fn forbids_loads(self) -> bool {
        !matches!(self, Self::Send | Self::Origin)
    }
}

/// A range of memory that an operation owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct OwnedRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) role: BufferRole,
}

/// The event that ends an operation's ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) enum Until {
    /// Completion of a request: its number and its handle, and the address of the variable that held it first.
    Request {
        number: u64,
        handle: u64,
        variable: u64,
    },
    /// Completion of accesses to a rank of a window.
    Access { window: u32, target: i32 },
    /// The end of a window.
    Window(u32),
    /// The end of a window, or the detachment of this memory from it.
    Attached(u32),
}

/// An operation in progress.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct OwningOperation {
    /// Entry of its call, in cycles, and the call's thread.
    pub(super) call: (u64, u32),
    pub(super) until: Until,
    pub(super) ranges: Vec<OwnedRange>,
    /// Recorded accesses: address of the instruction, and true for a store.
    pub(super) found: BTreeSet<(u64, bool)>,
    pub(super) hits: u32,
}

/// The operations of a process.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(super) struct ProcessBuffers {
    pub(super) operations: Vec<OwningOperation>,
    /// Ranges of persistent operations, by their numbers.
    pub(super) prepared: BTreeMap<u32, Vec<OwnedRange>>,
    pub(super) partitioned: PartitionedBuffers,
    pub(super) windows: WindowAccesses,
    /// True if some buffers were not watched, and a record says so.
    pub(super) is_crowded: bool,
}

impl ProcessBuffers {
    /// Ends the operations for which `ends` is true; returns true if there was one.
    pub(super) fn end(&mut self, ends: impl Fn(&Until) -> bool) -> bool {
        let before = self.operations.len();
        self.operations.retain(|operation| !ends(&operation.until));
        self.operations.len() < before
    }

    /// Ends the operation of request `number`, which a call completed by variables in the range `named`. Several requests may
    /// share a handle, and the program distinguishes them by their variables alone: if those do not tell, all of them end, and
    /// with an operation that ended before in place of another one, all with these `handles`.
    fn complete(&mut self, number: u64, named: Option<(u64, u64)>, handles: &[u64]) -> bool {
        let requests = |operation: &OwningOperation| match operation.until {
            Until::Request {
                number,
                handle,
                variable,
            } => Some((number, handle, variable)),
            _ => None,
        };
        let mut all = self.operations.iter().filter_map(requests);
        let Some((_, shared, _)) = all.find(|(own, ..)| *own == number) else {
            return self.end(
                |until| matches!(until, Until::Request { handle, .. } if handles.contains(handle)),
            );
        };
        let all = self.operations.iter().filter_map(requests);
        let sharing: Vec<(u64, u64)> = all
            .filter(|(_, handle, _)| *handle == shared)
            .map(|(number, _, variable)| (number, variable))
            .collect();
        let is_named =
            |variable: u64| named.is_some_and(|(start, end)| (start..end).contains(&variable));
        let distinguished = sharing.iter().filter(|(_, variable)| is_named(*variable));
        let mut ending: Vec<u64> = distinguished.map(|(number, _)| *number).collect();
        if sharing.len() == 1 || ending.is_empty() {
            ending = sharing.iter().map(|(number, _)| *number).collect();
        }
        self.end(|until| matches!(until, Until::Request { number, .. } if ending.contains(number)))
    }

    /// Ends the operations whose request `MPI_Request_get_status` found complete, without freeing it.
    pub(super) fn end_observed(&mut self, event: &Event, memory: Reader<'_>) -> bool {
        let mut arguments = Arguments::new(event, memory);
        let is_complete = arguments.integer("flag").is_some_and(|flag| flag != 0);
        let Some(handle) = arguments.word("request").filter(|_| is_complete) else {
            return false;
        };
        self.end(|until| matches!(until, Until::Request { handle: own, .. } if *own == handle))
    }

    /// Ends the operations whose request is freed; of requests with unknown handles, all.
    pub(super) fn free(&mut self, handle: u64) -> bool {
        let has_it =
            |until: &Until| matches!(until, Until::Request { handle: own, .. } if *own == handle);
        self.end(has_it) || self.end(|until| matches!(until, Until::Request { handle: 0, .. }))
    }

    /// Ends the operations that a call completed, and those of a request or a window that it freed; returns true if there were
    /// some. `handles` are those of its entry.
    pub(super) fn end_with(&mut self, event: &Event, handles: &[u64]) -> bool {
        let mut changed = false;
        let named = request_variables(event);
        for completion in &event.completed {
            changed |= self.complete(completion.request, named, handles);
        }
        let kind = event.meaning().kind;
        let window = event.details.0.as_ref().and_then(|details| details.window);
        match (kind, window) {
            (CallKind::FreeRequest, _) => {
                changed |= handles.first().is_some_and(|handle| self.free(*handle));
            }
            (CallKind::Epoch(epoch), Some(window)) => {
                let rank = argument(event, "rank");
                changed |= self.end_epoch(epoch, window, rank);
            }
            (CallKind::Free(Object::Window), Some(window)) => {
                changed |= self.end(|until| match until {
                    Until::Access { window: own, .. }
                    | Until::Window(own)
                    | Until::Attached(own) => *own == window,
                    Until::Request { .. } => false,
                });
            }
            (_, Some(window)) if event.meaning().base == "Win_detach" => {
                changed |= self.detach(window, word(event, "base"));
            }
            _ => {}
        }
        changed
    }

    /// Ends the ownership of memory that was attached to a window at an address.
    fn detach(&mut self, window: u32, base: Option<u64>) -> bool {
        let before = self.operations.len();
        self.operations.retain(|operation| {
            let start = operation.ranges.first().map(|range| range.start);
            operation.until != Until::Attached(window) || start != base
        });
        self.operations.len() < before
    }

    /// Adds a prepared operation; returns false if an earlier one had to go.
    pub(super) fn prepare(&mut self, number: u32, ranges: Vec<OwnedRange>) -> bool {
        self.prepared.insert(number, ranges);
        let owned: usize = self.prepared.values().map(Vec::len).sum();
        // The earliest is the most likely to have been freed.
        let has_room = self.prepared.len() <= MOST_PREPARED && owned <= MOST_OWNED;
        has_room || self.prepared.pop_first().is_none()
    }

    /// Adds an operation; returns false if there are too many.
    pub(super) fn begin(
        &mut self,
        call: (u64, u32),
        until: Until,
        ranges: Vec<OwnedRange>,
    ) -> bool {
        if ranges.is_empty() {
            return true;
        }
        let owned = self
            .operations
            .iter()
            .map(|operation| operation.ranges.len());
        let owned = owned.sum::<usize>() + ranges.len();
        let has_room = self.operations.len() < MOST_OPERATIONS && owned <= MOST_OWNED;
        if has_room {
            self.operations.push(OwningOperation {
                call,
                until,
                ranges,
                found: BTreeSet::new(),
                hits: 0,
            });
        }
        has_room
    }

    pub(super) fn end_epoch(&mut self, epoch: Epoch, window: u32, rank: Option<i32>) -> bool {
        epoch.ends_accesses()
            && self.end(|until| match until {
                Until::Access {
                    window: own,
                    target,
                } => *own == window && rank.is_none_or(|rank| rank == *target),
                _ => false,
            })
    }
}

/// Returns the word of an argument.
pub(super) fn word(event: &Event, name: &str) -> Option<u64> {
    let parameters = event.description().parameters.iter();
    let mut named = parameters.zip(&event.arguments);
    let found = named.find(|(parameter, _)| parameter.name == name);
    found.map(|(_, word)| *word)
}

/// Returns the value of an `int` argument.
fn argument(event: &Event, name: &str) -> Option<i32> {
    word(event, name).map(|word| word as i32)
}

/// Returns the memory that a call attached to a window; `None` for other calls.
pub(super) fn attached(event: &Event) -> Option<OwnedRange> {
    let attaches = event.meaning().base == "Win_attach";
    let start = word(event, "base").filter(|_| attaches)?;
    let end = start.checked_add(word(event, "size")?)?;
    (start < end && end < 1 << 63).then_some(OwnedRange {
        start,
        end,
        role: BufferRole::Window,
    })
}

/// The event that ends the ownership of the operations that a call began; `None` if they ended with the call.
pub(super) fn until(event: &Event, window: Option<u32>, memory: Reader<'_>) -> Option<Until> {
    if let Some(number) = event.started.first() {
        let (variable, _) = request_variables(event)?;
        let width = event.implementation.handle_width();
        let handle = memory.handles(variable, 1, width).ok()?;
        return Some(Until::Request {
            number: *number,
            handle: handle.first().copied()?,
            variable,
        });
    }
    match event.meaning().kind {
        CallKind::Access(_) => Some(Until::Access {
            window: window?,
            target: argument(event, "target_rank")?,
        }),
        _ => None,
    }
}
