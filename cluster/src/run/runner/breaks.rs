//! Stops of a node for a debugger: before instructions at breakpoints, after accesses to watched memory, and at a
//! number of retired instructions.
//!
//! A halted node executes nothing until it is released; the guest is not affected. Set by the
//! timeline between rounds.

use std::collections::BTreeMap;

use belljar_cpu::{SegmentRegister, WatchedBuffers, Watchpoint};
use belljar_sim::Time;

use super::Runner;
use crate::observe::watch::Watch;

/// The bits of CR3 with the address of the page tables.
const TABLES: u64 = 0x000f_ffff_ffff_f000;

/// The processes and threads in which a breakpoint counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BreakFilter {
    /// The physical address of the page tables of the process; `None` for all.
    pub space: Option<u64>,
    /// The base of segment FS, which distinguishes threads of a process; `None` for all.
    pub thread: Option<u64>,
}

/// A node's arrival at a breakpoint or a watchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival {
    /// The node's clock.
    pub(crate) time: Time,
    /// Instructions that the node has retired.
    pub(crate) instructions: u64,
    /// The address of the next instruction; or of the first watched byte.
    pub(crate) address: u64,
    /// The access to watched memory, which is over.
    pub(crate) access: Option<WatchedAccess>,
}

/// An access to watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchedAccess {
    /// True for a store.
    pub write: bool,
    /// The time at which a device wrote, if one did. The node has executed an instruction since.
    pub device: Option<Time>,
}

/// A node's breakpoints, and its state as a debugger's subject.
#[derive(Debug, Default)]
pub(crate) struct Breaks {
    points: BTreeMap<u64, Vec<BreakFilter>>,
    watched: Vec<Watchpoint>,
    /// Watched buffers of operations in progress, for the tracer.
    pub(super) buffers: WatchedBuffers,
    /// The write of a device that is reported after the next instruction.
    written: Option<(Time, u64)>,
    /// True if the first arrival halts the node.
    halts: bool,
    /// Arrivals count from this number of instructions on.
    first: u64,
    arrivals: Vec<Arrival>,
    /// The number of instructions at which the node halts.
    pause: Option<u64>,
    halted: bool,
}

impl Breaks {
    /// True if the node executes nothing for now.
    pub(super) fn is_halted(&self) -> bool {
        self.halted
    }
}

impl Runner {
    /// Replaces all breakpoints: linear addresses, each with its filters. Returns false if the engine has no
    /// breakpoints.
    pub(crate) fn set_breakpoints(&mut self, points: BTreeMap<u64, Vec<BreakFilter>>) -> bool {
        let addresses: Vec<u64> = points.keys().copied().collect();
        let same = addresses.iter().eq(self.breaks.points.keys());
        self.breaks.points = points;
        // Each change costs the node its translated code.
        same || self.node.set_breakpoints(&addresses)
    }

    /// Replaces all watchpoints. Returns false if the engine has none.
    pub(crate) fn set_watchpoints(&mut self, points: Vec<Watchpoint>) -> bool {
        if points == self.breaks.watched {
            return true;
        }
        let set = self.node.set_watchpoints(&points);
        self.breaks.watched = points;
        set
    }

    /// Releases the node. Arrivals count from `first` instructions on, and the first of them halts it with `halts`.
    pub(crate) fn release(&mut self, first: u64, halts: bool) {
        self.breaks.first = first;
        self.breaks.halts = halts;
        self.breaks.halted = false;
        self.breaks.pause = None;
        self.breaks.written = None;
        self.breaks.arrivals.clear();
        self.node.pause_at(u64::MAX);
    }

    /// Halts the node as it is.
    pub(crate) fn halt(&mut self) {
        self.breaks.halted = true;
    }

    /// Halts the node when it has retired `instructions`.
    pub(crate) fn halt_at(&mut self, instructions: u64) {
        self.breaks.halted = self.node.retired() >= instructions;
        self.breaks.pause = Some(instructions);
        self.node.pause_at(instructions);
    }

    /// The time of the arrival that halted the node.
    pub(crate) fn halted_at(&self) -> Option<Time> {
        let first = self.breaks.arrivals.first();
        first
            .filter(|_| self.breaks.halts)
            .map(|arrival| arrival.time)
    }

    /// Arrivals at breakpoints since the node was released, in order.
    pub(crate) fn arrivals(&self) -> &[Arrival] {
        &self.breaks.arrivals
    }

    /// Sets all stops of a node that has taken the place of another one.
    pub(super) fn set_stops(&mut self) {
        if !self.breaks.points.is_empty() {
            let addresses: Vec<u64> = self.breaks.points.keys().copied().collect();
            self.node.set_breakpoints(&addresses);
        }
        if !self.breaks.watched.is_empty() {
            self.node.set_watchpoints(&self.breaks.watched);
        }
        let watch = self.watch.as_ref().and_then(Watch::next);
        self.node
            .pause_at(self.breaks.pause.or(watch).unwrap_or(u64::MAX));
    }

    /// Handles the node's stop before an instruction.
    pub(super) fn arrive(&mut self) {
        let address = self.node.registers().rip;
        let Some(filters) = self.breaks.points.get(&address) else {
            return;
        };
        let system = self.node.system();
        let space = system.cr3 & TABLES;
        let thread = system.segments[SegmentRegister::Fs as usize].base;
        let accepts = |filter: &BreakFilter| {
            filter.space.is_none_or(|wanted| wanted == space)
                && filter.thread.is_none_or(|wanted| wanted == thread)
        };
        let instructions = self.node.retired();
        let arrival = Arrival {
            time: self.node.now(),
            instructions,
            address,
            access: None,
        };
        // The stop repeats if an interrupt or a fault comes first.
        let is_new = self.breaks.arrivals.last() != Some(&arrival);
        if instructions >= self.breaks.first && is_new && filters.iter().any(accepts) {
            self.breaks.arrivals.push(arrival);
            self.breaks.halted |= self.breaks.halts;
        }
    }

    /// Handles an access to the watchpoint of this number.
    pub(super) fn meet_watchpoint(&mut self, number: u32, write: bool, device: bool) {
        let Some(point) = self.breaks.watched.get(number as usize) else {
            return;
        };
        let (now, instructions, address) = (self.node.now(), self.node.retired(), point.linear);
        if device {
            // No instruction marks the moment: the next one does.
            let counts = instructions.saturating_add(1) >= self.breaks.first;
            if counts && self.breaks.pause.is_none() {
                self.breaks.written.get_or_insert((now, address));
                self.node.pause_at(instructions + 1);
            }
        } else if instructions >= self.breaks.first {
            self.arrive_after(
                address,
                WatchedAccess {
                    write,
                    device: None,
                },
            );
        }
    }

    /// Records an arrival at a watchpoint.
    fn arrive_after(&mut self, address: u64, access: WatchedAccess) {
        self.breaks.arrivals.push(Arrival {
            time: self.node.now(),
            instructions: self.node.retired(),
            address,
            access: Some(access),
        });
        self.breaks.halted |= self.breaks.halts;
    }

    /// Records the write of a device, one instruction later; returns false if there is none.
    pub(super) fn passes_device_write(&mut self) -> bool {
        let Some((time, address)) = self.breaks.written.take() else {
            return false;
        };
        self.node.pause_at(u64::MAX);
        let device = Some(time);
        self.arrive_after(
            address,
            WatchedAccess {
                write: true,
                device,
            },
        );
        true
    }

    /// Halts the node if it has reached its number of instructions; returns false if it has none.
    pub(super) fn halts_here(&mut self) -> bool {
        let here = self
            .breaks
            .pause
            .is_some_and(|at| self.node.retired() >= at);
        self.breaks.halted |= here;
        here
    }
}
