//! Accesses of programs to the memory of their windows, against accesses of other processes.
//!
//! Two accesses conflict if they overlap, one of them stores, and neither happens before the other by messages, collective
//! operations and synchronisations of windows (MPI-4.0, 12.7). Locks that exclude each other are no conflict. Windows are
//! compared by offsets. Filled by each fact, and evaluated after the replay of the run's order.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use belljar_job::{Fact, Locking, Member, Operation, OperationId, Origin, ProcessKey, WindowId};
use belljar_mpi::Epoch;
use belljar_trace::{Direction, Event, TraceHeader, TransferKind};

use super::accesses::ProgramAccess;
use super::{BufferContext, Buffers};
use crate::check::epochs::Guard;
use crate::check::finding::{FindingKind, Findings};
use crate::check::order::{OrderClocks, RunOrder, ThreadPoint};

/// Limit on accesses of other processes.
const MOST_REMOTE: usize = 1 << 18;
/// Limit on comparisons.
const MOST_COMPARED: usize = 1 << 24;

/// The memory of a window at one process.
type TargetMemory = (WindowId, Member);

/// An access of another process.
#[derive(Debug)]
struct RemoteAccess {
    /// Ranges of offsets in the window.
    ranges: Vec<(u64, u64)>,
    writes: bool,
    guard: Guard,
    /// True for an access in an epoch of `MPI_Win_start`, which exposures of its target order.
    is_started: bool,
    call: Rc<Event>,
    begin: ThreadPoint,
    /// The point after the call that completed it.
    end_point: Option<ThreadPoint>,
}

impl RemoteAccess {
    /// True if it reaches an offset from `start` to before `end`.
    fn overlaps(&self, start: u64, end: u64) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|(from, to)| *from < end && start < *to)
    }
}

/// A lock that a process holds on its own memory, by entries of calls in cycles.
#[derive(Debug)]
struct OwnLock {
    from: u64,
    to: Option<u64>,
    is_exclusive: bool,
}

/// Windows, and accesses to them.
#[derive(Debug, Default)]
pub(in crate::check) struct WindowConflicts {
    /// By process and its number of the window.
    windows: BTreeMap<(ProcessKey, u32), TargetMemory>,
    remote: BTreeMap<TargetMemory, Vec<RemoteAccess>>,
    open: BTreeMap<OperationId, (TargetMemory, usize)>,
    locks: BTreeMap<TargetMemory, Vec<OwnLock>>,
    /// Exposures by `MPI_Win_post`, in picoseconds.
    exposed: BTreeMap<TargetMemory, Vec<(u64, Option<u64>)>>,
    /// Windows whose process synchronises its own view, as programs that poll do.
    polled: BTreeSet<TargetMemory>,
    count: usize,
    pub(in crate::check) is_crowded: bool,
}

/// An access of the program, and one of another process, that overlap.
struct Overlap<'a> {
    own: &'a Rc<ProgramAccess>,
    at: ThreadPoint,
    remote: &'a RemoteAccess,
}

impl WindowConflicts {
    /// Takes a call after its facts.
    pub(in crate::check) fn take_call(
        &mut self,
        call: &Event,
        header: &TraceHeader,
        context: &BufferContext<'_>,
    ) {
        let number = call.details.0.as_ref().and_then(|details| details.window);
        let Some((number, window)) = number.zip(context.operations.window(call)) else {
            return;
        };
        let memory = (window, context.member);
        if call.meaning().makes_window() {
            let process = (call.node, call.process);
            self.windows.insert((process, number), memory);
        }
        let exposures = self.exposed.entry(memory).or_default();
        match call.meaning().epoch() {
            Some(Epoch::Sync) => {
                self.polled.insert(memory);
            }
            Some(Epoch::Post) => exposures.push((picoseconds(header, call.node, call.entry), None)),
            Some(Epoch::Wait | Epoch::Test) => {
                let is_over = call.details.0.as_ref().is_some_and(|details| details.over);
                let ends = is_over || call.meaning().epoch() == Some(Epoch::Wait);
                let exit = call.exit.filter(|_| ends);
                if let Some((exit, (_, to))) = exit.zip(exposures.last_mut()) {
                    to.get_or_insert(picoseconds(header, call.node, exit));
                }
            }
            _ => {}
        }
    }

    /// Takes a fact of a call.
    pub(in crate::check) fn take(
        &mut self,
        call: &Rc<Event>,
        fact: &Fact,
        buffers: &Buffers,
        order: &mut RunOrder,
        context: &BufferContext<'_>,
    ) {
        match fact {
            Fact::Begun {
                operation,
                origin: Origin::Transfer(index),
                what: Operation::Access { target, .. },
            } => self.access(call, *operation, (*index, *target), buffers, order, context),
            Fact::Begun {
                what:
                    Operation::Lock {
                        window,
                        target,
                        how,
                    },
                ..
            } if *target == context.member => self.lock(call, (*window, *target), *how),
            Fact::Completed { operation, .. } => {
                if let Some((memory, index)) = self.open.remove(operation) {
                    let point = order.point(call);
                    let remote = self
                        .remote
                        .get_mut(&memory)
                        .and_then(|all| all.get_mut(index));
                    if let Some(remote) = remote {
                        remote.end_point = Some(point);
                    }
                }
            }
            _ => {}
        }
    }

    fn lock(&mut self, call: &Event, memory: TargetMemory, how: Locking) {
        let own = self.locks.entry(memory).or_default();
        match how {
            Locking::Shared | Locking::Exclusive => own.push(OwnLock {
                from: call.entry,
                to: None,
                is_exclusive: how == Locking::Exclusive,
            }),
            Locking::Release => {
                if let Some(last) = own.last_mut() {
                    last.to.get_or_insert(call.entry);
                }
            }
        }
    }

    fn access(
        &mut self,
        call: &Rc<Event>,
        operation: OperationId,
        (index, target): (usize, Member),
        buffers: &Buffers,
        order: &mut RunOrder,
        context: &BufferContext<'_>,
    ) {
        let Some(transfer) = call.transfers.get(index) else {
            return;
        };
        let TransferKind::Access(access) = transfer.kind else {
            return;
        };
        // Accesses in both directions have two transfers.
        if access.puts() && transfer.direction == Direction::Receive {
            return;
        }
        let Some((memory, ranges)) = buffers.target_ranges(call, transfer, target, context) else {
            return;
        };
        self.count += ranges.len().max(1);
        if self.count > MOST_REMOTE {
            self.is_crowded = true;
            return;
        }
        let all = self.remote.entry(memory).or_default();
        self.open.insert(operation, (memory, all.len()));
        all.push(RemoteAccess {
            ranges,
            writes: access.puts(),
            guard: context.epochs.guard(call),
            is_started: context.epochs.is_started(call),
            call: Rc::clone(call),
            begin: order.point(call),
            end_point: None,
        });
    }

    /// Adds the conflicts of the program's accesses.
    pub(in crate::check) fn finish(
        &mut self,
        accesses: &[Rc<ProgramAccess>],
        header: &TraceHeader,
        order: &RunOrder,
        findings: &mut Findings,
    ) {
        let overlaps = Self::overlaps(&*self, accesses, header, order);
        let Some(overlaps) = overlaps else {
            self.is_crowded = true;
            return;
        };
        if overlaps.is_empty() {
            return;
        }
        let points = overlaps.iter().flat_map(|one| [one.at, one.remote.begin]);
        let Some(clocks) = order.clocks(points) else {
            self.is_crowded = true;
            return;
        };
        for overlap in &overlaps {
            if !overlap.is_ordered(&clocks) {
                overlap.report(findings);
            }
        }
    }

    /// Overlapping accesses that locks do not exclude; `None` if there are too many.
    fn overlaps<'a>(
        &'a self,
        accesses: &'a [Rc<ProgramAccess>],
        header: &TraceHeader,
        order: &RunOrder,
    ) -> Option<Vec<Overlap<'a>>> {
        let mut overlaps = Vec::new();
        let mut compared = 0;
        for own in accesses {
            let process = (own.node, own.process);
            let memory = own
                .window
                .and_then(|window| self.windows.get(&(process, window)));
            let at = own
                .thread
                .and_then(|thread| order.point_at(process, thread, own.at));
            let (Some(memory), Some(at)) = (memory, at) else {
                continue;
            };
            let start = own.address.saturating_sub(own.start);
            let end = start.saturating_add(own.bytes);
            for remote in self.remote.get(memory).into_iter().flatten() {
                compared += remote.ranges.len().max(1);
                if compared > MOST_COMPARED {
                    return None;
                }
                let meets = remote.overlaps(start, end);
                let conflicts = own.is_store || remote.writes && !self.polled.contains(memory);
                if meets
                    && conflicts
                    && !self.excludes(memory, own, remote)
                    && self.may_meet(memory, own, remote, header)
                {
                    overlaps.push(Overlap { own, at, remote });
                }
            }
        }
        Some(overlaps)
    }

    /// True unless the access of another process belongs to an exposure in which the program's access is not.
    fn may_meet(
        &self,
        memory: &TargetMemory,
        own: &ProgramAccess,
        remote: &RemoteAccess,
        header: &TraceHeader,
    ) -> bool {
        if !remote.is_started {
            return true;
        }
        let at = picoseconds(header, own.node, own.at);
        let begun = picoseconds(header, remote.call.node, remote.call.entry);
        let mut exposures = self.exposed.get(memory).into_iter().flatten();
        exposures.any(|(from, to)| {
            let has = |time: u64| *from <= time && to.is_none_or(|to| time <= to);
            has(at) && has(begun)
        })
    }

    /// True if the locks of both accesses exclude each other.
    fn excludes(&self, memory: &TargetMemory, own: &ProgramAccess, remote: &RemoteAccess) -> bool {
        let mut held = self
            .locks
            .get(memory)
            .into_iter()
            .flatten()
            .filter(|lock| lock.from <= own.at && lock.to.is_none_or(|to| own.at <= to));
        held.any(|lock| lock.is_exclusive || remote.guard == Guard::Exclusive)
    }
}

fn picoseconds(header: &TraceHeader, node: u32, cycles: u64) -> u64 {
    header.frequency(node).time_of(cycles).as_ps()
}

impl Overlap<'_> {
    /// True if one of both happens before the other. Two accesses of one thread are ordered by its calls.
    fn is_ordered(&self, clocks: &OrderClocks) -> bool {
        let begin = self.remote.begin;
        let own_first = match begin.thread == self.at.thread {
            true => self.remote.call.entry > self.own.at,
            false => clocks.of(begin, self.at.thread) > self.at.calls,
        };
        let remote_first =
            self.remote
                .end_point
                .is_some_and(|end| match end.thread == self.at.thread {
                    true => end.exit <= self.own.at,
                    false => clocks.of(self.at, end.thread) > end.calls,
                });
        own_first || remote_first
    }

    fn report(&self, findings: &mut Findings) {
        let call = &self.remote.call;
        let how = match self.own.is_store {
            true => "store",
            false => "load",
        };
        let text = format!(
            "{} of rank {} and a {how} of rank {} access the same memory of a window without an order",
            call.name(),
            call.rank,
            self.own.rank
        );
        findings.add_access(FindingKind::WindowConflict, &[call], self.own, text);
    }
}
