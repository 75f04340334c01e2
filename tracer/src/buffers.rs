//! Accesses of programs to memory that operations of MPI own.
//!
//! A buffer of a nonblocking operation belongs to it from the return of the call that begins it to the return of the call that
//! completes it (MPI-4.0, 3.7.2 and 12.5): the program must not store into a send buffer, nor access a receive buffer. The
//! memory of a window belongs to accesses of other processes, too; the program's accesses to it are recorded as ranges, and a
//! reader of the trace compares them. The engine stops the node after accesses to these ranges by threads outside of MPI
//! calls. All tables are bounded. Used by `node` at entry and return of calls, and by the runner of the node.

/// Ranges of window memory that the program accesses between two calls.
mod window;

use std::collections::{BTreeMap, BTreeSet};

use belljar_mpi::{CallKind, Epoch, Object, Phase};
use belljar_trace::{BUFFER_ACCESS, Event, Frame, ProbePurpose, ProbeRecord, ProbeValue, Site};
use bincode::{Decode, Encode};

use crate::calls::Space;
use crate::guest::memory::{GuestMemory, Reader};
use crate::guest::registers::MagicRegisters;
use crate::node::NodeTracer;
use crate::process::buffers::request_variables;
use window::WindowAccesses;

/// Most operations of a process whose buffers are watched at once.
const MOST_OPERATIONS: usize = 1 << 12;
/// Most prepared operations of a process.
const MOST_PREPARED: usize = 1 << 12;
/// Most accesses of an operation that are recorded: different instructions.
const MOST_FOUND: usize = 16;
/// Most accesses to an operation's buffers, recorded or not, until they are watched no longer.
const MOST_HITS: u32 = 1 << 12;
/// Bits of CR3 with the address of the page tables.
const TABLES: u64 = 0x000f_ffff_ffff_f000;

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
    fn forbids_loads(self) -> bool {
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
enum Until {
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
}

/// An operation in progress.
#[derive(Clone, Debug, Encode, Decode)]
struct OwningOperation {
    /// Entry of its call, in cycles, and the call's thread.
    call: (u64, u32),
    until: Until,
    ranges: Vec<OwnedRange>,
    /// Recorded accesses: address of the instruction, and true for a store.
    found: BTreeSet<(u64, bool)>,
    hits: u32,
}

/// The operations of a process.
#[derive(Clone, Debug, Default, Encode, Decode)]
struct ProcessBuffers {
    operations: Vec<OwningOperation>,
    /// Ranges of persistent operations, by their numbers.
    prepared: BTreeMap<u32, Vec<OwnedRange>>,
    windows: WindowAccesses,
    /// True if some buffers were not watched, and a record says so.
    is_crowded: bool,
}

/// The watched buffers of a node.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(crate) struct NodeBuffers {
    by_space: BTreeMap<Space, ProcessBuffers>,
    /// True if ranges changed since the engine got them.
    has_new_ranges: bool,
    /// True if threads entered or left calls since.
    has_new_threads: bool,
}

/// An access that stopped the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoppedAccess {
    /// Address of the instruction.
    pub instruction: u64,
    /// Linear address of the first byte.
    pub linear: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// True for a store.
    pub write: bool,
}

/// A range to watch: start, end, and true if loads count.
pub type RangeToWatch = (u64, u64, bool);

/// The buffers that the engine must watch from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuffersToWatch {
    /// Ranges by address space; `None` if they are as before.
    pub spaces: Option<BTreeMap<u64, Vec<RangeToWatch>>>,
    /// Threads inside of MPI calls, by address space and base of segment FS.
    pub exempt: BTreeSet<(u64, u64)>,
}

impl ProcessBuffers {
    /// Ends the operations for which `ends` is true; returns true if there was one.
    fn end(&mut self, ends: impl Fn(&Until) -> bool) -> bool {
        let before = self.operations.len();
        self.operations.retain(|operation| !ends(&operation.until));
        self.operations.len() < before
    }

    /// Ends the operation of request `number`, which a call completed by variables in the range `named`. Several requests may
    /// share a handle, and the program distinguishes them by their variables alone: if those do not tell, all of them end.
    fn complete(&mut self, number: u64, named: Option<(u64, u64)>) -> bool {
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
            return false;
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

    /// Ends the operations whose request is freed; of requests with unknown handles, all.
    fn free(&mut self, handle: u64) -> bool {
        let has_it =
            |until: &Until| matches!(until, Until::Request { handle: own, .. } if *own == handle);
        self.end(has_it) || self.end(|until| matches!(until, Until::Request { handle: 0, .. }))
    }

    /// Adds an operation; returns false if there are too many.
    fn begin(&mut self, call: (u64, u32), until: Until, ranges: Vec<OwnedRange>) -> bool {
        if ranges.is_empty() {
            return true;
        }
        let has_room = self.operations.len() < MOST_OPERATIONS;
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

    fn end_epoch(&mut self, epoch: Epoch, window: u32, rank: Option<i32>) -> bool {
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

impl NodeTracer {
    /// True if the run records accesses to buffers of operations.
    pub fn watches_buffers(&self) -> bool {
        self.buffer_probe().is_some()
    }

    /// The number of the probe whose records are accesses to buffers.
    fn buffer_probe(&self) -> Option<u32> {
        let mut probes = (0..).zip(self.probes.iter());
        let found = probes.find(|(_, probe)| probe.purpose == ProbePurpose::BufferAccess);
        found.map(|(number, _)| number)
    }

    /// Returns the buffers to watch, if they or the threads inside of calls have changed.
    pub fn take_buffers_to_watch(&mut self) -> Option<BuffersToWatch> {
        if !self.buffers.has_new_ranges && !self.buffers.has_new_threads {
            return None;
        }
        self.buffers.has_new_threads = false;
        let spaces = match std::mem::take(&mut self.buffers.has_new_ranges) {
            true => Some(self.ranges_to_watch()),
            false => None,
        };
        let watched = self.buffers.by_space.iter();
        let watched = watched.filter(|(_, own)| !own.operations.is_empty());
        let exempt = watched.flat_map(|(space, _)| {
            let threads = self.open.threads_in(*space);
            threads.map(|(thread, _)| (*space, thread))
        });
        Some(BuffersToWatch {
            spaces,
            exempt: exempt.collect(),
        })
    }

    /// Makes [`take_buffers_to_watch`](Self::take_buffers_to_watch) return all buffers, for a new engine.
    pub fn renew_buffers(&mut self) {
        self.buffers.has_new_ranges = self.watches_buffers();
    }

    fn ranges_to_watch(&self) -> BTreeMap<u64, Vec<RangeToWatch>> {
        let range = |range: &OwnedRange| (range.start, range.end, range.role.forbids_loads());
        let spaces = self.buffers.by_space.iter().map(|(space, own)| {
            let operations = own.operations.iter();
            let watched = operations.filter(|operation| match operation.until {
                Until::Window(_) => !own.windows.is_full(),
                _ => operation.hits < MOST_HITS,
            });
            let ranges = watched.flat_map(|operation| operation.ranges.iter().map(range));
            (*space, ranges.collect::<Vec<RangeToWatch>>())
        });
        spaces.filter(|(_, ranges)| !ranges.is_empty()).collect()
    }

    /// Takes a call that was entered: its thread's accesses are the library's.
    pub(crate) fn buffers_at_entry(&mut self, space: Space, at: u64) {
        let Some(own) = self.buffers.by_space.get_mut(&space) else {
            return;
        };
        self.buffers.has_new_threads |= !own.operations.is_empty();
        // The engine watches windows again after a call.
        self.buffers.has_new_ranges |= own.windows.is_full();
        let records = own.windows.take(at);
        self.own.records.0.extend(records);
    }

    /// Takes a call that returned, after its process has. `handles` are those of its entry.
    pub(crate) fn buffers_at_return(
        &mut self,
        space: Space,
        event: &Event,
        handles: &[u64],
        memory: &dyn GuestMemory,
    ) {
        let (Some(_), Some(process)) = (self.buffer_probe(), self.processes.get(&space)) else {
            return;
        };
        let own = self.buffers.by_space.entry(space).or_default();
        self.buffers.has_new_threads |= !own.operations.is_empty();
        let mut changed = false;
        let named = request_variables(event);
        for completion in &event.completed {
            changed |= own.complete(completion.request, named);
        }
        let kind = event.meaning().kind;
        let window = event.details.0.as_ref().and_then(|details| details.window);
        match (kind, window) {
            (CallKind::FreeRequest, _) => {
                changed |= handles.first().is_some_and(|handle| own.free(*handle));
            }
            (CallKind::Epoch(epoch), Some(window)) => {
                let rank = argument(event, "rank");
                changed |= own.end_epoch(epoch, window, rank);
            }
            (CallKind::Free(Object::Window), Some(window)) => {
                changed |= own.end(|until| match until {
                    Until::Access { window: own, .. } | Until::Window(own) => *own == window,
                    Until::Request { .. } => false,
                });
            }
            _ => {}
        }
        if event.failed() || event.exit.is_none() {
            self.buffers.has_new_ranges |= changed;
            return;
        }
        let call = (event.entry, event.thread);
        let mut has_room = true;
        let details = event.details.0.as_deref();
        let persistent = details.map_or(&[][..], |details| &details.persistent);
        if event.meaning().phase == Phase::Prepared {
            let ranges = process.owned_ranges(event, Reader(memory));
            if let Some(number) = persistent.first() {
                own.prepared.insert(*number, ranges);
            }
            // The earliest is the most likely to have been freed.
            has_room &= own.prepared.len() <= MOST_PREPARED || own.prepared.pop_first().is_none();
        } else if kind == CallKind::Start {
            for (prepared, number) in persistent.iter().zip(&event.started) {
                let ranges = own.prepared.get(prepared).cloned().unwrap_or_default();
                changed |= !ranges.is_empty();
                let until = Until::Request {
                    number: *number,
                    handle: match handles {
                        [handle] => *handle,
                        _ => 0,
                    },
                    variable: 0,
                };
                has_room &= own.begin(call, until, ranges);
            }
        } else if event.meaning().makes_window() {
            let range = process.window_range(event, Reader(memory));
            if let Some((range, window)) = range.zip(window) {
                changed = true;
                has_room &= own.begin(call, Until::Window(window), vec![range]);
            }
        } else if let Some(until) = until(event, window, Reader(memory)) {
            let ranges = process.owned_ranges(event, Reader(memory));
            changed |= !ranges.is_empty();
            has_room &= own.begin(call, until, ranges);
        }
        let is_new = !has_room && !own.is_crowded;
        own.is_crowded |= !has_room;
        self.buffers.has_new_ranges |= changed;
        if is_new {
            self.record_crowd(space, event.exit.unwrap_or(event.entry), event.vcpu);
        }
    }

    /// Returns the accesses to windows since their processes' last calls, at cycle `end` of the node.
    pub(crate) fn buffers_left(&self, end: u64) -> Vec<ProbeRecord> {
        let mut all = self.buffers.clone();
        let each = all.by_space.values_mut();
        each.flat_map(|own| own.windows.take(end)).collect()
    }

    /// Forgets the process in an address space, at cycle `at`.
    pub(crate) fn end_buffers(&mut self, space: Space, at: u64) {
        if let Some(mut own) = self.buffers.by_space.remove(&space) {
            self.buffers.has_new_ranges = true;
            self.own.records.0.extend(own.windows.take(at));
        }
    }

    /// Takes an access by a program to a watched buffer, after its instruction at cycle `at`. `registers` are those after it.
    pub fn buffer_accessed(
        &mut self,
        at: u64,
        vcpu: u32,
        access: StoppedAccess,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        let space = registers.cr3 & TABLES;
        let Some(probe) = self.buffer_probe() else {
            return;
        };
        let is_inside = self
            .open
            .threads_in(space)
            .any(|(thread, _)| thread == registers.fs_base);
        let Some(own) = self.buffers.by_space.get_mut(&space).filter(|_| !is_inside) else {
            return;
        };
        let end = access.linear.saturating_add(access.bytes);
        let touches = |range: &OwnedRange| {
            let counts = access.write || range.role.forbids_loads();
            counts && range.start < end && access.linear < range.end
        };
        let mut touched = Vec::new();
        for (index, operation) in own.operations.iter_mut().enumerate() {
            let Some(range) = operation.ranges.iter().find(|range| touches(range)) else {
                continue;
            };
            operation.hits = operation.hits.saturating_add(1);
            if let Until::Window(window) = operation.until {
                let is_known = own.windows.widen(window, &access);
                if !is_known {
                    touched.push((index, *range));
                }
                self.buffers.has_new_ranges |= own.windows.is_full();
                continue;
            }
            self.buffers.has_new_ranges |= operation.hits == MOST_HITS;
            let key = (access.instruction, access.write);
            if operation.found.len() < MOST_FOUND && operation.found.insert(key) {
                touched.push((index, *range));
            }
        }
        let is_new = own.windows.is_full() && !own.is_crowded;
        own.is_crowded |= is_new;
        if is_new {
            self.record_crowd(space, at, vcpu);
        }
        for (index, range) in touched {
            self.record_access((at, vcpu, probe), index, range, access, registers, memory);
        }
    }

    /// Records the first access of an instruction to a range of operation number `index` of its process.
    fn record_access(
        &mut self,
        (at, vcpu, probe): (u64, u32, u32),
        index: usize,
        range: OwnedRange,
        access: StoppedAccess,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        let space = registers.cr3 & TABLES;
        // The first frame's address is after the start of its instruction, as a return address is after its call.
        let mut place = *registers;
        place.rip = access.instruction;
        let site = self.sites.find_at(&place, memory);
        if self.is_library_code(space, access.instruction, &site) {
            return;
        }
        let thread = self
            .processes
            .get(&space)
            .and_then(|process| process.thread_of(registers.fs_base));
        let mut record = self.own_record_at(at, vcpu, probe, registers, site);
        let Some(own) = self.buffers.by_space.get_mut(&space) else {
            return;
        };
        let Some(operation) = own.operations.get(index) else {
            return;
        };
        let window = match operation.until {
            Until::Window(window) | Until::Access { window, .. } => Some(window),
            Until::Request { .. } => None,
        };
        record.arguments = words([
            u64::from(role_number(range.role)),
            operation.call.0,
            u64::from(operation.call.1),
            u64::from(thread.unwrap_or(u32::MAX)),
            access.linear,
            access.bytes,
            u64::from(access.write),
            access.instruction,
            u64::from(window.unwrap_or(u32::MAX)),
            range.start,
        ]);
        match (operation.until, window) {
            (Until::Window(_), Some(window)) => own.windows.begin(window, &access, record),
            _ => self.own.records.0.push(record),
        }
    }

    /// True if an instruction is in the code of its process's MPI library, or was called from there: a thread of the library's own.
    fn is_library_code(&self, space: Space, instruction: u64, site: &Site) -> bool {
        let process = self.processes.get(&space);
        let Some((file, base)) = process.and_then(|process| process.library) else {
            return false;
        };
        let number = file as usize;
        let library = self.targets.find_library(number);
        let Some((library, path)) = library.zip(self.targets.name(number)) else {
            return false;
        };
        let code = &library.code;
        let is_in_library = |frame: &Frame| {
            let mut file = frame.file.iter();
            code.contains(&frame.address) && file.any(|file| file.path == path)
        };
        let frames = site.0.iter().flat_map(|stack| &stack.0);
        code.contains(&instruction.wrapping_sub(base)) || frames.into_iter().any(is_in_library)
    }

    /// Records that buffers of a process are not watched, because there are too many.
    fn record_crowd(&mut self, space: Space, at: u64, vcpu: u32) {
        let Some(probe) = self.buffer_probe() else {
            return;
        };
        let registers = MagicRegisters {
            cr3: space,
            ..MagicRegisters::default()
        };
        let mut record = self.own_record_at(at, vcpu, probe, &registers, Default::default());
        let mut arguments = [0; BUFFER_ACCESS.len()];
        arguments[0] = NOT_WATCHED;
        record.arguments = words(arguments);
        self.own.records.0.push(record);
    }
}

/// The role in records of buffers that are not watched.
const NOT_WATCHED: u64 = 5;

fn role_number(role: BufferRole) -> u8 {
    match role {
        BufferRole::Send => 0,
        BufferRole::Receive => 1,
        BufferRole::Origin => 2,
        BufferRole::Result => 3,
        BufferRole::Window => 4,
    }
}

fn words(arguments: [u64; BUFFER_ACCESS.len()]) -> Vec<ProbeValue> {
    arguments.map(ProbeValue::Word).to_vec()
}

/// Returns the value of an `int` argument.
fn argument(event: &Event, name: &str) -> Option<i32> {
    let parameters = event.description().parameters.iter();
    let mut named = parameters.zip(&event.arguments);
    let found = named.find(|(parameter, _)| parameter.name == name);
    found.map(|(_, word)| *word as i32)
}

/// The event that ends the ownership of the operations that a call began; `None` if they ended with the call.
fn until(event: &Event, window: Option<u32>, memory: Reader<'_>) -> Option<Until> {
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

/// Finishes a record of a window's memory with the range that was accessed, at cycle `at`.
fn with_range(mut record: ProbeRecord, (start, end): (u64, u64), at: u64) -> ProbeRecord {
    record.known = at;
    record.arguments[4] = ProbeValue::Word(start);
    record.arguments[5] = ProbeValue::Word(end - start);
    record
}
