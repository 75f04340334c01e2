//! Threads of schedules: calls that begin when their conditions hold.
//!
//! A thread whose calls have conditions reaches a call, waits for the points of its process that the call names, requests its processor, works there, and enters the
//! call. A processor does one work at a time, in the order of requests. In a calibration, calls are entered as in the trace. Used by the engine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use belljar_networks::Network;
use belljar_program::{Conditions, ProcessId, Program};
use serde::{Deserialize, Serialize};

use super::{Engine, Event, Timing};

/// A point or a processor of a process.
type Key = (ProcessId, u32);

/// Points and processors of all processes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Scheduled {
    /// Reached points.
    reached: BTreeSet<Key>,
    /// Threads that wait for a point.
    waiting: BTreeMap<Key, Vec<u32>>,
    processors: BTreeMap<Key, Processor>,
}

/// A processor of a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Processor {
    /// The time until which it works, in picoseconds.
    until: u64,
    /// True if a thread works on it towards its next call.
    held: bool,
    /// True if it is served again at `until`.
    woken: bool,
    /// Threads that request it.
    queue: VecDeque<u32>,
}

impl Scheduled {
    /// True if all referenced threads are below `threads`.
    pub(super) fn is_sound(&self, threads: usize) -> bool {
        let queues = self.processors.values().flat_map(|it| &it.queue);
        let mut all = self.waiting.values().flatten().chain(queues);
        all.all(|number| (*number as usize) < threads)
    }
}

impl<'p, N: Network + ?Sized> Engine<'p, '_, N> {
    /// True for a thread whose calls begin by their conditions.
    pub(super) fn is_scheduled(&self, number: u32) -> bool {
        let has = !self.program.threads[number as usize].conditions.is_empty();
        has && matches!(self.timing, Timing::Replayed(_))
    }

    /// Returns the process of a thread and the conditions of one of its calls.
    fn conditions(&self, number: u32, call: usize) -> Option<(ProcessId, &'p Conditions)> {
        let program: &'p Program = self.program;
        let thread = &program.threads[number as usize];
        Some((thread.process, thread.conditions.get(call)?))
    }

    /// Handles a thread that has left a call and reaches its next one.
    pub(super) fn come(&mut self, now: u64, number: u32) {
        let call = self.threads[number as usize].next_call();
        let left = call
            .checked_sub(1)
            .and_then(|it| self.conditions(number, it));
        if let Some((process, conditions)) = left
            && let Some(point) = conditions.complete
        {
            self.reach(now, (process, point));
        }
        let Some((process, conditions)) = self.conditions(number, call) else {
            return;
        };
        let mut missing = 0;
        for point in &conditions.after {
            let key = (process, *point);
            if !self.scheduled.reached.contains(&key) {
                let waiting = self.scheduled.waiting.entry(key).or_default();
                waiting.push(number);
                missing += 1;
            }
        }
        self.threads[number as usize].missing = missing;
        if missing == 0 {
            self.schedule_event(now, Event::Asks(number));
        }
    }

    /// Handles a reached point.
    fn reach(&mut self, now: u64, point: Key) {
        if !self.scheduled.reached.insert(point) {
            return;
        }
        for number in self.scheduled.waiting.remove(&point).unwrap_or_default() {
            let missing = &mut self.threads[number as usize].missing;
            *missing = missing.saturating_sub(1);
            if *missing == 0 {
                self.schedule_event(now, Event::Asks(number));
            }
        }
    }

    /// Requests a thread's processor.
    pub(super) fn ask(&mut self, now: u64, number: u32) {
        let call = self.threads[number as usize].next_call();
        let Some((process, conditions)) = self.conditions(number, call) else {
            return;
        };
        let key = (process, conditions.processor);
        let processor = self.scheduled.processors.entry(key).or_default();
        processor.queue.push_back(number);
        self.serve(now, key);
    }

    /// Serves the requests of a processor that was busy.
    pub(super) fn wake(&mut self, now: u64, key: Key) {
        if let Some(processor) = self.scheduled.processors.get_mut(&key) {
            processor.woken = false;
            self.serve(now, key);
        }
    }

    /// Gives a processor to the first requesting thread, if it is free.
    fn serve(&mut self, now: u64, key: Key) {
        let Some(processor) = self.scheduled.processors.get_mut(&key) else {
            return;
        };
        if processor.held || processor.queue.is_empty() {
            return;
        }
        if processor.until > now {
            if !std::mem::replace(&mut processor.woken, true) {
                let until = processor.until;
                self.schedule_event(until, Event::Wakes(key.0, key.1));
            }
            return;
        }
        let Some(number) = processor.queue.pop_front() else {
            return;
        };
        processor.held = true;
        let call = self.threads[number as usize].next_call();
        let Some((_, conditions)) = self.conditions(number, call) else {
            return;
        };
        let (work, started) = (conditions.work, conditions.started);
        let span = (work as f64 * self.scale) as u64;
        self.schedule_event(now.saturating_add(span), Event::Enters(number));
        if let Some(point) = started {
            self.reach(now, (key.0, point));
        }
    }

    /// Handles a thread that has entered a call at `now` and begun its operations: its processor is free after these.
    pub(super) fn release(&mut self, now: u64, number: u32, call: usize) {
        let Some((process, conditions)) = self.conditions(number, call) else {
            return;
        };
        let key = (process, conditions.processor);
        let free = self.free(process, now);
        if let Some(processor) = self.scheduled.processors.get_mut(&key) {
            processor.held = false;
            processor.until = processor.until.max(free);
        }
        self.serve(now, key);
    }

    /// Handles a thread that leaves a call at `exit`; its processor works for the call until then.
    pub(super) fn leave_scheduled(&mut self, exit: u64, number: u32, call: usize) {
        let Some((process, conditions)) = self.conditions(number, call) else {
            return;
        };
        let key = (process, conditions.processor);
        if let Some(processor) = self.scheduled.processors.get_mut(&key) {
            processor.until = processor.until.max(exit);
        }
        self.schedule_event(exit, Event::Comes(number));
    }
}
