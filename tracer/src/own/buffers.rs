//! Accesses of programs to memory that operations of MPI own.
//!
//! A buffer of a nonblocking operation belongs to it from the return of the call that begins it to the return of the call that
//! completes it (MPI-4.0, 3.7.2 and 12.5): the program must not store into a send buffer, nor access a receive buffer. The
//! memory of a window belongs to accesses of other processes, too; the program's accesses to it are recorded as ranges, and a
//! reader of the trace compares them. The engine stops the node after accesses to these ranges by threads outside of MPI
//! calls. All tables are bounded. Used by `node` at entry and return of calls, and by the runner of the node.

/// Operations in progress.
mod operations;
/// Buffers of partitioned messages.
mod partitions;
/// Records of accesses.
mod record;
/// Ranges of window memory that the program accesses between two calls.
mod window;

use std::collections::{BTreeMap, BTreeSet};

use belljar_mpi::{CallKind, Phase, makes_window_of_other_memory, observes_request};
use belljar_trace::{Event, ProbePurpose, ProbeRecord};
use bincode::{Decode, Encode};

use crate::calls::Space;
use crate::guest::memory::{GuestMemory, Reader};
use crate::guest::registers::MagicRegisters;
use crate::node::NodeTracer;
pub(crate) use operations::{BufferRole, OwnedRange};
use operations::{ProcessBuffers, Until, attached, until};

/// Most accesses of an operation that are recorded: different instructions.
const MOST_FOUND: usize = 16;
/// Most accesses to an operation's buffers, recorded or not, until they are watched no longer.
const MOST_HITS: u32 = 1 << 12;
/// Bits of CR3 with the address of the page tables.
const TABLES: u64 = 0x000f_ffff_ffff_f000;

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
                Until::Window(_) | Until::Attached(_) => !own.windows.is_full(),
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
        let mut changed = own.end_with(event, handles);
        let kind = event.meaning().kind;
        let window = event.details.0.as_ref().and_then(|details| details.window);
        if event.failed() || event.exit.is_none() {
            self.buffers.has_new_ranges |= changed;
            return;
        }
        if observes_request(event.function) {
            changed |= own.end_observed(event, Reader(memory));
        }
        let call = (event.entry, event.thread);
        let mut has_room = true;
        let details = event.details.0.as_deref();
        let persistent = details.map_or(&[][..], |details| &details.persistent);
        if event.meaning().phase == Phase::Prepared {
            let owned = process.owned_ranges(event, Reader(memory));
            has_room &= owned.is_whole;
            if details.is_some_and(|details| !details.partitioned.is_empty()) {
                has_room &= own.partitioned.prepare(event, owned.ranges);
            } else if let Some(number) = persistent.first() {
                has_room &= own.prepare(*number, owned.ranges);
            }
        } else if kind == CallKind::Start {
            for (index, (prepared, number)) in persistent.iter().zip(&event.started).enumerate() {
                let until = Until::Request {
                    number: *number,
                    handle: match handles {
                        [handle] => *handle,
                        _ => 0,
                    },
                    variable: 0,
                };
                let partitioned = details.and_then(|it| it.partitioned.get(index).copied()?);
                let ranges = match partitioned {
                    Some(number) => own.partitioned.start(number, until),
                    None => own.prepared.get(prepared).cloned().unwrap_or_default(),
                };
                changed |= !ranges.is_empty();
                has_room &= own.begin(call, until, ranges);
            }
        } else if let Some((has_changed, is_watched)) = own.take_partitions(event, Reader(memory)) {
            changed |= has_changed;
            has_room &= is_watched;
        } else if event.meaning().makes_window() {
            let range = process.window_range(event, Reader(memory));
            has_room &= !makes_window_of_other_memory(event.function);
            if let Some((range, window)) = range.zip(window) {
                changed = true;
                has_room &= own.begin(call, Until::Window(window), vec![range]);
            }
        } else if let Some((range, window)) = attached(event).zip(window) {
            changed = true;
            has_room &= own.begin(call, Until::Attached(window), vec![range]);
        } else if let Some(until) = until(event, window, Reader(memory)) {
            let owned = process.owned_ranges(event, Reader(memory));
            changed |= !owned.ranges.is_empty();
            has_room &= owned.is_whole;
            has_room &= own.begin(call, until, owned.ranges);
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
            if let Until::Window(window) | Until::Attached(window) = operation.until {
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
}
