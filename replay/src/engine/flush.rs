//! Calls that wait for flushes before they do the rest of their operations.
//!
//! An unlock flushes before it releases the lock, and a fence before its barrier. In a calibration the next call may be entered meanwhile; its
//! operations then follow, so that a process never asks for a lock before it has released it. Called by threads and accesses.

use belljar_networks::Network;
use belljar_program::Thread;
use serde::{Deserialize, Serialize};

use super::thread::Waiting;
use super::{Engine, Event};

/// A call that was entered and has not begun its operations.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Entered {
    pub(super) call: u32,
    pub(super) entry: u64,
    /// Its operations in the thread: the first, and the end.
    pub(super) operations: (usize, usize),
}

/// A call that waits for flushes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Suspended {
    waiting: Waiting,
    /// Flushes that are not over.
    flushes: u32,
    /// Since when, in picoseconds.
    since: u64,
    /// The rest of its operations: the first, and the end.
    rest: (usize, usize),
}

/// True if a thread has these operations.
fn has(thread: &Thread, (first, end): (usize, usize)) -> bool {
    first <= end && end <= thread.operations.len()
}

impl Entered {
    /// True if it can be a call of this thread.
    pub(super) fn is_sound(&self, thread: &Thread) -> bool {
        (self.call as usize) < thread.calls.len() && has(thread, self.operations)
    }
}

impl Suspended {
    /// True if it can be a call of this thread.
    pub(super) fn is_sound(&self, thread: &Thread) -> bool {
        (self.waiting.call as usize) < thread.calls.len() && has(thread, self.rest)
    }
}

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// A call waits for so many flushes, and then does the rest of its operations.
    pub(super) fn suspend(
        &mut self,
        now: u64,
        number: u32,
        (waiting, flushes): (Waiting, u32),
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

    /// One of the flushes that a thread's call waits for is over.
    pub(super) fn flushed(&mut self, now: u64, number: u32) {
        if let Some(suspended) = &mut self.threads[number as usize].suspended {
            suspended.flushes = suspended.flushes.saturating_sub(1);
            if suspended.flushes == 0 {
                self.schedule_event(now, Event::Resumes(number));
            }
        }
    }

    /// A thread's call does the rest of its operations; calls that were entered meanwhile follow.
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
        self.proceed(now, number, waiting, rest, None);
        while self.threads[number as usize].suspended.is_none() {
            let Some(entered) = self.threads[number as usize].entered.pop_front() else {
                return;
            };
            self.begin_call(now, number, entered);
        }
    }
}
