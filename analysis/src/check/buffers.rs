//! Overlapping buffers of operations in progress, and conflicting accesses to windows.
//!
//! An operation reads or writes a range of a process's memory from its begin to its completion: its own buffer, and for an
//! access to a window the target's memory. Two ranges conflict if they overlap and one of them is written. Gaps of derived
//! datatypes are no part of them. Called for each fact.

/// Accesses of programs to memory that operations own.
pub(super) mod accesses;
/// Accesses of programs to their windows.
pub(super) mod windows;

use std::collections::BTreeMap;
use std::rc::Rc;

use belljar_job::{
    Communicators, Fact, Member, Operation, OperationId, Operations, Origin, ProcessKey, WindowId,
};
use belljar_mpi::{Access, CallKind};
use belljar_trace::{Direction, Event, Transfer, TransferKind};

use super::epochs::{Epochs, Guard};
use super::finding::{FindingKind, Findings};
use super::requests::RequestStates;
use super::signature::types::{TypeTable, TypedData};
use super::signature::{integer, word};

/// Limit on ranges of a process.
const MOST_RANGES: usize = 1 << 16;
/// Limit on ranges that are compared with a new one.
const MOST_COMPARED: usize = 256;

/// The memory of a process, or a window of it whose address is unknown.
type Space = (Member, Option<WindowId>);
/// The begin of a range, and a number that is unique.
type RangeKey = (u64, u64);

/// Memory of an access at its target: the window at the target, and ranges of offsets in it.
pub(super) type TargetRanges = ((WindowId, Member), Vec<(u64, u64)>);

/// A range of memory that an operation uses.
#[derive(Clone, Debug)]
struct UsedRange {
    end: u64,
    of: RangeUse,
}

/// The use of a range.
#[derive(Clone, Debug)]
struct RangeUse {
    writes: bool,
    accumulates: bool,
    /// Of an access to another process's memory, its protection.
    remote: Option<Guard>,
    origin: ProcessKey,
    call: Rc<Event>,
}

/// A window at one of its processes.
#[derive(Clone, Copy, Debug)]
struct WindowMemory {
    /// Its address, if the program allocated it.
    base: Option<u64>,
    unit: u64,
}

/// Ranges of all processes.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    used: BTreeMap<Space, BTreeMap<RangeKey, UsedRange>>,
    longest: BTreeMap<Space, u64>,
    of_operation: BTreeMap<OperationId, Vec<(Space, RangeKey)>>,
    windows: BTreeMap<(WindowId, Member), WindowMemory>,
    next: u64,
}

/// Knowledge of other checks about a call.
pub(super) struct BufferContext<'a> {
    pub(super) operations: &'a Operations<&'a Communicators>,
    pub(super) requests: &'a RequestStates,
    pub(super) epochs: &'a Epochs,
    pub(super) types: &'a TypeTable,
    pub(super) member: Member,
}

impl Buffers {
    /// Takes a call before its facts.
    pub(super) fn take_call(&mut self, call: &Rc<Event>, member: Member) {
        if call.meaning().kind == CallKind::FreeRequest {
            // Which operation it ends is unknown.
            self.used.remove(&(member, None));
        }
    }

    /// Records the memory of a window that a call created, after its facts.
    pub(super) fn learn(&mut self, call: &Event, context: &BufferContext<'_>) {
        if !call.meaning().makes_window() {
            return;
        }
        if let Some(window) = context.operations.window(call) {
            let unit = integer(call, "disp_unit").and_then(|unit| u64::try_from(unit).ok());
            let memory = WindowMemory {
                base: word(call, "base"),
                unit: unit.unwrap_or(1),
            };
            self.windows.insert((window, context.member), memory);
        }
    }

    /// Takes a fact of a call.
    pub(super) fn take(
        &mut self,
        call: &Rc<Event>,
        fact: &Fact,
        context: &BufferContext<'_>,
        findings: &mut Findings,
    ) {
        match fact {
            Fact::Begun {
                operation,
                origin: Origin::Transfer(index),
                what,
            } => {
                let target = match what {
                    Operation::Access { target, .. } => Some(*target),
                    _ => None,
                };
                self.begin(call, *operation, *index, target, context, findings);
            }
            Fact::Completed { operation, .. } | Fact::Lost { operation, .. } => {
                self.end(*operation)
            }
            _ => {}
        }
    }

    fn begin(
        &mut self,
        call: &Rc<Event>,
        operation: OperationId,
        index: usize,
        target: Option<Member>,
        context: &BufferContext<'_>,
        findings: &mut Findings,
    ) {
        let Some(transfer) = call.transfers.get(index) else {
            return;
        };
        let process = (call.node, call.process);
        let described = match call.meaning().kind {
            CallKind::Start => {
                let numbers = call.details.0.as_ref().map(|details| &details.persistent);
                let number = numbers.and_then(|numbers| numbers.get(index));
                number.and_then(|number| context.requests.prepared(process, *number))
            }
            _ => Some(call),
        };
        let Some(described) = described.cloned() else {
            return;
        };
        if let Some(start) = local_buffer(&described, transfer) {
            let data = TypedData {
                process,
                datatype: transfer.datatype,
                count: transfer.count,
            };
            let ranges = context.types.ranges(data, start).unwrap_or_default();
            let used = RangeUse {
                writes: transfer.direction == Direction::Receive,
                accumulates: false,
                remote: None,
                origin: process,
                call: Rc::clone(call),
            };
            self.insert((context.member, None), &ranges, &used, operation, findings);
        }
        if let Some(target) = target {
            self.access(call, operation, transfer, target, context, findings);
        }
    }

    /// The target's memory of an access.
    fn access(
        &mut self,
        call: &Rc<Event>,
        operation: OperationId,
        transfer: &Transfer,
        target: Member,
        context: &BufferContext<'_>,
        findings: &mut Findings,
    ) {
        let TransferKind::Access(access) = transfer.kind else {
            return;
        };
        // Accesses in both directions have two transfers.
        if access.puts() && transfer.direction == Direction::Receive {
            return;
        }
        let Some(((window, _), ranges)) = self.target_ranges(call, transfer, target, context)
        else {
            return;
        };
        let base = self.windows.get(&(window, target)).and_then(|it| it.base);
        let (space, base) = match base {
            Some(base) => ((target, None), base),
            None => ((target, Some(window)), 0),
        };
        let at = |offset: u64| base.saturating_add(offset);
        let ranges = ranges.iter().map(|(start, end)| (at(*start), at(*end)));
        let ranges: Vec<(u64, u64)> = ranges.collect();
        let used = RangeUse {
            writes: access.puts(),
            accumulates: !matches!(access, Access::Put | Access::Get),
            remote: Some(context.epochs.guard(call)),
            origin: (call.node, call.process),
            call: Rc::clone(call),
        };
        self.insert(space, &ranges, &used, operation, findings);
    }

    /// The memory of an access at its target: its window, and ranges of offsets in it; `None` if they are unknown.
    pub(super) fn target_ranges(
        &self,
        call: &Event,
        transfer: &Transfer,
        target: Member,
        context: &BufferContext<'_>,
    ) -> Option<TargetRanges> {
        let window = context.operations.window(call)?;
        let memory = self.windows.get(&(window, target)).copied()?;
        let offset = integer(call, "target_disp")
            .and_then(|disp| u64::try_from(disp).ok()?.checked_mul(memory.unit))?;
        let ranges = context.types.ranges(target_data(call, transfer), offset)?;
        Some(((window, target), ranges))
    }

    /// Adds the ranges of an operation.
    fn insert(
        &mut self,
        space: Space,
        ranges: &[(u64, u64)],
        of: &RangeUse,
        operation: OperationId,
        findings: &mut Findings,
    ) {
        let used = self.used.entry(space).or_default();
        let longest = self.longest.entry(space).or_default();
        let conflict = ranges.iter().find_map(|(start, end)| {
            let first = start.saturating_sub(*longest);
            let near = used.range((first, 0)..(*end, 0)).take(MOST_COMPARED);
            let mut near = near.map(|(_, other)| other);
            near.find(|other| other.end > *start && conflicts(&other.of, of))
        });
        if let Some(other) = conflict {
            report(&other.of, of, findings);
        }
        for (start, end) in ranges.iter().filter(|(start, end)| start < end) {
            if used.len() >= MOST_RANGES {
                return;
            }
            *longest = (*longest).max(end - start);
            let key = (*start, self.next);
            self.next += 1;
            let (end, of) = (*end, of.clone());
            used.insert(key, UsedRange { end, of });
            let owned = self.of_operation.entry(operation).or_default();
            owned.push((space, key));
        }
    }

    fn end(&mut self, operation: OperationId) {
        for (space, key) in self.of_operation.remove(&operation).into_iter().flatten() {
            if let Some(used) = self.used.get_mut(&space) {
                used.remove(&key);
            }
        }
    }
}

/// True if two overlapping ranges must not be used at once.
fn conflicts(one: &RangeUse, other: &RangeUse) -> bool {
    if !one.writes && !other.writes {
        return false;
    }
    match (one.remote, other.remote) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let excluded =
                one.origin != other.origin && (a == Guard::Exclusive || b == Guard::Exclusive);
            !(excluded || one.accumulates && other.accumulates)
        }
        _ => true,
    }
}

fn report(one: &RangeUse, other: &RangeUse, findings: &mut Findings) {
    let (a, b) = (&one.call, &other.call);
    let is_window = one.remote.is_some() || other.remote.is_some();
    if Rc::ptr_eq(a, b) && !is_window {
        let text = format!(
            "the send buffer and the receive buffer of {} overlap",
            a.name()
        );
        findings.add(FindingKind::InvalidBuffer, &[a], text);
        return;
    }
    let (kind, what) = match is_window {
        true => (
            FindingKind::WindowConflict,
            "access the same memory of a window",
        ),
        false => (FindingKind::BufferConflict, "use the same buffer"),
    };
    let how = match (one.writes, other.writes) {
        (true, true) => "both write",
        (true, false) => "the first writes",
        _ => "the second writes",
    };
    let text = format!(
        "{} of rank {} and {} of rank {} {what} at once: {how}",
        a.name(),
        a.rank,
        b.name(),
        b.rank
    );
    findings.add(kind, &[a, b], text);
}

/// The data of an access at its target.
pub(super) fn target_data(call: &Event, transfer: &Transfer) -> TypedData {
    let details = call.details.0.as_deref();
    let datatype = details.and_then(|details| details.target_datatype);
    let count = integer(call, "target_count").map_or(transfer.count, i64::cast_unsigned);
    TypedData {
        process: (call.node, call.process),
        datatype: datatype.unwrap_or(transfer.datatype),
        count,
    }
}

/// The address of a transfer's own buffer; `None` if the call has one for both directions, or none.
fn local_buffer(call: &Event, transfer: &Transfer) -> Option<u64> {
    let receives = transfer.direction == Direction::Receive;
    let kind = call.meaning().kind;
    if kind == CallKind::SendReceive && word(call, "buf").is_some() {
        return None;
    }
    let name = match (transfer.kind, receives) {
        (TransferKind::Access(Access::Get), true) => "origin_addr",
        (TransferKind::Access(_), true) => "result_addr",
        (TransferKind::Access(_), false) => "origin_addr",
        (TransferKind::Message(_), _) if word(call, "buf").is_some() => "buf",
        (TransferKind::Message(_), true) => "recvbuf",
        (TransferKind::Message(_), false) => "sendbuf",
    };
    // Partitions of a buffer are used one by one.
    let is_partitioned = word(call, "partitions").is_some();
    word(call, name).filter(|address| *address > 1 && *address != u64::MAX && !is_partitioned)
}
