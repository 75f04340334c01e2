//! List scheduling of micro-operations in program order.
//!
//! Each instruction is dispatched, executed and retired at the earliest cycle that its operands, the ports and the
//! window permit, given all instructions before it; a later instruction never delays an earlier one. Times are whole
//! cycles, and depend on nothing but the instructions since the last `restart`. `cost` is the
//! caller.

use std::sync::Arc;

use crate::TICKS_PER_CYCLE;
use crate::class::UopClass;
use crate::processor::Processor;
use crate::uops::{Flow, MicroOp, Place, REGISTERS, RegisterSet};

/// Free places of ports.
mod calendar;
/// Rings of the last times.
mod history;
/// Uncommitted stores, by symbolic address.
mod stores;

use calendar::Calendar;
use history::History;
use stores::{Addresses, Stores};

/// Cycles between the last time of a path and the first of the next one: more than any calendar holds.
const APART: u64 = 1 << 16;

/// Cycles by which the front end follows jumps before they are dispatched.
const AHEAD: u64 = 16;

/// A core in the middle of a path.
#[derive(Debug)]
pub struct Schedule {
    processor: Arc<Processor>,
    ports: Calendar,
    /// Cycles in which registers' values are available.
    ready: [u64; REGISTERS],
    /// The class whose operations have them earlier, by so many cycles.
    early: [(UopClass, u32); REGISTERS],
    /// The cycle of the last dispatch, and the micro-operations dispatched in it.
    dispatch: u64,
    dispatched: u32,
    /// The cycle of the last retirement, and the micro-operations retired in it.
    retire: u64,
    retired: u32,
    /// Cycles of retirement of the last micro-operations.
    window: History,
    /// Cycles of issue of the last general and vector operations.
    schedulers: [History; 2],
    addresses: Addresses,
    stores: Stores,
    /// The cycle up to which the front end has followed jumps.
    followed: u64,
    /// The cycle in which the last jump was resolved.
    resolved: u64,
    /// The latest cycle so far.
    latest: u64,
}

impl Schedule {
    /// An empty core.
    pub fn new(processor: Arc<Processor>) -> Self {
        let core = processor.core;
        let mut schedule = Self {
            ports: Calendar::new(&processor),
            ready: [0; REGISTERS],
            early: [(UopClass::Nop, 0); REGISTERS],
            dispatch: 0,
            dispatched: 0,
            retire: 0,
            retired: 0,
            window: History::new(core.window),
            schedulers: core.schedulers.map(History::new),
            addresses: Addresses::default(),
            stores: Stores::default(),
            followed: 0,
            resolved: 0,
            latest: 0,
            processor,
        };
        schedule.restart();
        schedule
    }

    /// Empties the core.
    pub fn restart(&mut self) {
        let start = self.latest + APART;
        self.ready = [0; REGISTERS];
        self.early = [(UopClass::Nop, 0); REGISTERS];
        (self.dispatch, self.dispatched) = (start, 0);
        (self.retire, self.retired) = (start + 1, 0);
        self.window.clear();
        self.schedulers.iter_mut().for_each(History::clear);
        self.addresses.clear();
        self.stores.clear();
        self.followed = start;
        self.resolved = 0;
        self.latest = start;
    }

    /// The time up to which everything is retired, in ticks; only differences have a meaning.
    pub fn ticks(&self) -> u64 {
        let part =
            u64::from(self.retired) * TICKS_PER_CYCLE / u64::from(self.processor.core.retire);
        self.retire * TICKS_PER_CYCLE + part
    }

    /// Executes the next instruction.
    pub fn step(&mut self, op: &MicroOp) {
        let cost = self.processor.class(op.class);
        let uops = if op.fused { 0 } else { cost.uops };
        if op.class.serialises() {
            self.wait(self.retire);
        }
        let counts = uops > 0 && op.executes;
        let begin = self.dispatch(uops, counts.then_some(usize::from(op.vector)));
        let operands = begin.max(self.latest_of(op.sources, op.class));
        let address = begin.max(self.latest_of(op.addresses, UopClass::Nop));
        let store = op.store.map(|place| self.addresses.key(place));
        let input = match op.load {
            Some(place) => operands.max(self.load(op, place, address, begin)),
            None => operands,
        };
        let mut done = input;
        if op.executes {
            let ports = op.class.ports();
            let issued = ports.map_or(input, |group| self.ports.take(group, input, cost.occupancy));
            done = issued + u64::from(cost.latency);
            if counts {
                self.schedulers[usize::from(op.vector)].push(issued);
            }
        }
        self.finish(op, done);
        let stored = op.store.map(|_| self.ports.store(address));
        self.retire(uops, done.max(stored.map_or(0, |at| at + 1)));
        if let Some(key) = store {
            let committed = self.retire + u64::from(self.processor.memory.commit);
            self.stores.add(key, op.store, done, committed);
        }
        if op.class.serialises() {
            self.wait(self.retire);
        }
        self.latest = self.latest.max(self.retire).max(done);
    }

    /// The next instruction is at the target of the last one, a taken jump. The front end follows jumps one after
    /// another, ahead of dispatch by at most [`AHEAD`] cycles, so jumps wait only for others that are near.
    pub fn jump(&mut self, flow: Flow) {
        let core = &self.processor.core;
        let idle = match flow {
            Flow::Call => core.call,
            Flow::Return => core.returns,
            Flow::Indirect => core.indirect,
            Flow::Next | Flow::Conditional | Flow::Jump => core.taken,
        };
        let begin = self.followed.max(self.dispatch.saturating_sub(AHEAD));
        self.followed = begin + u64::from(idle);
        self.wait(self.followed);
    }

    /// The last jump was mispredicted.
    pub fn mispredict(&mut self) {
        self.wait(self.resolved + u64::from(self.processor.core.mispredict));
        self.followed = self.dispatch;
    }

    /// Dispatches nothing before cycle `until`.
    fn wait(&mut self, until: u64) {
        if until > self.dispatch {
            (self.dispatch, self.dispatched) = (until, 0);
        }
    }

    /// Dispatches `uops` micro-operations, the first of which may need an entry of a scheduler. Returns the first
    /// cycle in which they may be issued.
    fn dispatch(&mut self, uops: u32, scheduler: Option<usize>) -> u64 {
        if uops > 0 {
            self.wait(self.window.oldest_after(uops));
            if self.dispatched + uops > self.processor.core.dispatch {
                self.wait(self.dispatch + 1);
            }
            self.dispatched = (self.dispatched + uops).min(self.processor.core.dispatch);
        }
        if let Some(scheduler) = scheduler {
            let free = self.schedulers[scheduler].oldest_after(1);
            if free > self.dispatch + 1 {
                self.wait(free - 1);
                self.dispatched = uops.min(self.processor.core.dispatch);
            }
        }
        self.dispatch + 1
    }

    /// The cycle in which an operation of `class` has all of these registers' values.
    fn latest_of(&self, registers: RegisterSet, class: UopClass) -> u64 {
        let (mut left, mut latest) = (registers, 0);
        while left != 0 {
            let number = left.trailing_zeros() as usize;
            let (early_class, early) = self.early[number];
            let sooner = if early_class == class { early } else { 0 };
            latest = latest.max(self.ready[number] - u64::from(sooner));
            left &= left - 1;
        }
        latest
    }

    /// The cycle in which a load has its data.
    fn load(&mut self, op: &MicroOp, place: Place, address: u64, begin: u64) -> u64 {
        let memory = self.processor.memory;
        let kind = usize::from(op.vector);
        let indexed = if place.index.is_some() {
            memory.indexed
        } else {
            0
        };
        let issued = self.ports.load(op.vector, address);
        let key = self.addresses.key(place);
        match self.stores.find(key, place, issued) {
            Some((data, alike)) if op.renames(place, alike) => {
                data.max(begin) + u64::from(memory.renamed)
            }
            Some((data, _)) => data.max(issued) + u64::from(memory.forward[kind]),
            None => issued + u64::from(memory.load[kind] + indexed),
        }
    }

    /// Writes the results, which are available in cycle `done`.
    fn finish(&mut self, op: &MicroOp, done: u64) {
        let cost = self.processor.class(op.class);
        let early = if op.executes {
            cost.latency - cost.chained
        } else {
            0
        };
        let mut left = op.targets;
        while left != 0 {
            let number = left.trailing_zeros() as usize;
            (self.ready[number], self.early[number]) = (done, (op.class, early));
            left &= left - 1;
        }
        self.addresses.write(op);
        if op.flow != Flow::Next {
            self.resolved = done;
        }
    }

    /// Retires `uops` micro-operations in program order, not before the cycle after `done`.
    fn retire(&mut self, uops: u32, done: u64) {
        if done + 1 > self.retire {
            (self.retire, self.retired) = (done + 1, 0);
        }
        if uops == 0 {
            return;
        }
        if self.retired + uops > self.processor.core.retire {
            (self.retire, self.retired) = (self.retire + 1, 0);
        }
        self.retired = (self.retired + uops).min(self.processor.core.retire);
        for _ in 0..uops {
            self.window.push(self.retire);
        }
    }
}

#[cfg(test)]
mod tests;
