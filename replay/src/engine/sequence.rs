//! The operations of a call, one after the other.
//!
//! A call that flushes executes its remaining operations when all accesses are complete: an unlock flushes before it releases the lock, and a fence before its barrier.
//! In a calibration the next call may be entered meanwhile; its operations then follow, so that a process never requests a lock before it has released it. Used by
//! threads and accesses.

use belljar_networks::Network;
use belljar_program::{Operation, Thread};
use serde::{Deserialize, Serialize};

use super::thread::looks;
use super::waiting::WaitingCall;
use super::{Engine, Event};

/// A call that was entered and has not begun its operations.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct EnteredCall {
    pub(super) call: u32,
    pub(super) entry: u64,
    /// Its operations in the thread: the first, and the end.
    pub(super) operations: (usize, usize),
}

/// A call that waits for flushes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Suspended {
    waiting: WaitingCall,
    /// Number of incomplete flushes.
    flushes: u32,
    /// The begin of the waiting, in picoseconds.
    since: u64,
    /// Its remaining operations: the first, and the end.
    rest: (usize, usize),
}

/// True if a thread has these operations.
fn has(thread: &Thread, first: usize, end: usize) -> bool {
    first <= end && end <= thread.operations.len()
}

impl EnteredCall {
    /// True if it is a possible call of this thread.
    pub(super) fn is_sound(&self, thread: &Thread) -> bool {
        (self.call as usize) < thread.calls.len()
            && has(thread, self.operations.0, self.operations.1)
    }
}

impl Suspended {
    /// True if it is a possible call of this thread.
    pub(super) fn is_sound(&self, thread: &Thread) -> bool {
        (self.waiting.call as usize) < thread.calls.len() && has(thread, self.rest.0, self.rest.1)
    }
}

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// Begins a call's operations.
    pub(super) fn begin_call(&mut self, now: u64, number: u32, entered: EnteredCall) {
        let program = self.program;
        let thread = &program.threads[number as usize];
        let (first, last) = entered.operations;
        let operations = &thread.operations[first..last];
        let flushes = matches!(operations.first(), Some(Operation::Flush { .. }));
        let meets = |it: &Operation| matches!(it, Operation::Collective { .. });
        let looks = match flushes && operations.iter().any(meets) {
            // A flush before a meeting of all processes sees the answers that have arrived.
            true => Some(0),
            false => operations.iter().position(looks),
        };
        if operations.is_empty() {
            self.look(thread.process, now);
        }
        let waiting = WaitingCall::new(entered);
        self.proceed(now, number, waiting, first, last, looks);
    }

    /// Executes operations of a call's thread, from `first` on, and then waits. The library sees the arrivals before the operation at `looks`.
    pub(super) fn proceed(
        &mut self,
        now: u64,
        number: u32,
        mut waiting: WaitingCall,
        first: usize,
        last: usize,
        looks: Option<usize>,
    ) {
        let program = self.program;
        let thread = &program.threads[number as usize];
        let process = thread.process;
        let mut flushes = 0;
        for (at, operation) in thread.operations[first..last].iter().enumerate() {
            let flushed = match operation {
                Operation::Flush { channel } => Some(*channel),
                _ => None,
            };
            if flushes > 0 && flushed.is_none() {
                let rest = (first + at, last);
                return self.suspend(now, number, waiting, flushes, rest);
            }
            if looks == Some(at) {
                self.look(process, now);
            }
            match flushed {
                Some(channel) => flushes += u32::from(self.flush(now, channel, number)),
                None => self.operate(now, number, *operation, &mut waiting),
            }
        }
        if flushes > 0 {
            return self.suspend(now, number, waiting, flushes, (last, last));
        }
        waiting.done = self.free(process, now);
        match waiting.left {
            0 => self.leave(number, waiting),
            _ => {
                self.processes[process as usize].blocked += 1;
                self.threads[number as usize].waiting.insert(waiting);
            }
        }
    }

    /// Makes a call wait for this many flushes before its remaining operations.
    pub(super) fn suspend(
        &mut self,
        now: u64,
        number: u32,
        waiting: WaitingCall,
        flushes: u32,
        rest: (usize, usize),
    ) {
        let process = self.program.threads[number as usize].process;
        self.processes[process as usize].blocked += 1;
        self.threads[number as usize].suspended = Some(Suspended {
            waiting,
            flushes,
            since: self.free(process, now),
            rest,
        });
        self.look(process, now);
    }

    /// Handles the completion of one of the flushes that a thread's call waits for.
    pub(super) fn flushed(&mut self, now: u64, number: u32) {
        if let Some(suspended) = &mut self.threads[number as usize].suspended {
            suspended.flushes = suspended.flushes.saturating_sub(1);
            if suspended.flushes == 0 {
                self.schedule_event(now, Event::Resumes(number));
            }
        }
    }

    /// Executes the remaining operations of a thread's call, followed by calls that were entered meanwhile.
    pub(super) fn resume(&mut self, now: u64, number: u32) {
        let state = &mut self.threads[number as usize];
        let Some(Suspended {
            mut waiting,
            since,
            rest,
            ..
        }) = state.suspended.take_if(|it| it.flushes == 0)
        else {
            return;
        };
        let process = self.program.threads[number as usize].process;
        let blocked = &mut self.processes[process as usize].blocked;
        *blocked = blocked.saturating_sub(1);
        waiting.flushed(now, now.saturating_sub(since));
        self.look(process, now);
        self.proceed(now, number, waiting, rest.0, rest.1, None);
        while self.threads[number as usize].suspended.is_none() {
            let Some(entered) = self.threads[number as usize].entered.pop_front() else {
                return;
            };
            self.begin_call(now, number, entered);
        }
    }
}
