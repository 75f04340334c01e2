//! A thread's program under construction.
//!
//! Calls come in the order of the trace. Unsuccessful polls are not separate calls: a thread that only polls is waiting, and
//! the times of its polls depend on how long that takes. They are merged into the call that ends the waiting. Used by
//! `extract`.

use crate::program::{Call, Conditions, Operation, Slot, Thread};

/// Picoseconds of work between two polls from which on they are not waiting: such a program occasionally polls while it
/// computes.
const WORKS: u64 = 2_000_000;

/// A thread's program, as far as its calls have come.
#[derive(Debug, Default)]
pub(crate) struct GrowingThread {
    thread: Thread,
    /// The exit of its last call, in picoseconds.
    returned: Option<u64>,
    /// Free slots.
    free: Vec<Slot>,
    /// The index of the current call's first operation.
    begun: usize,
    /// Unsuccessful polls since its last call.
    polls: Option<Polls>,
}

/// Consecutive unsuccessful polls.
#[derive(Clone, Copy, Debug)]
struct Polls {
    function: u16,
    /// Picoseconds of work before the first.
    before: u64,
    /// From the first's entry to the last's return.
    times: CallSpan,
    /// The part outside of the polls.
    outside: u64,
    calls: u32,
}

/// The entry and exit of a call, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSpan {
    pub(crate) entry: u64,
    pub(crate) exit: u64,
}

impl GrowingThread {
    /// Creates the program of this thread of this process, which has that number on its node.
    pub(crate) fn new(process: u32, number: u32, thread: u32) -> Self {
        let thread = Thread {
            process,
            number,
            thread,
            ..Thread::default()
        };
        Self {
            thread,
            ..Self::default()
        }
    }

    /// Returns the index of the next operation.
    pub(crate) fn next(&self) -> usize {
        self.thread.operations.len()
    }

    /// Returns the operations of its calls so far, each with the entry of its call in picoseconds.
    pub(crate) fn timed(&self) -> impl Iterator<Item = (&Operation, u64)> {
        let calls = self.thread.calls.iter().zip(self.thread.traced());
        let entries = calls
            .flat_map(|(call, (entry, _))| std::iter::repeat_n(entry, call.operations as usize));
        self.thread.operations.iter().zip(entries)
    }

    /// Allocates a slot for an operation.
    pub(crate) fn slot(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(|| {
            self.thread.slots += 1;
            self.thread.slots - 1
        })
    }

    /// Adds an operation to the current call.
    pub(crate) fn push(&mut self, operation: Operation) {
        self.thread.operations.push(operation);
    }

    /// Makes the current call wait for the slot's operation.
    pub(crate) fn wait(&mut self, slot: Slot) {
        self.push(Operation::Wait { slot });
        self.free.push(slot);
    }

    /// Replaces the operation at this index.
    pub(crate) fn mend(&mut self, at: usize, operation: Operation) {
        if let Some(place) = self.thread.operations.get_mut(at) {
            *place = operation;
        }
    }

    /// Returns the picoseconds of the thread's own work before a call.
    fn work(&mut self, times: CallSpan) -> u64 {
        match self.returned {
            Some(returned) => times.entry.saturating_sub(returned),
            None => {
                self.thread.start = times.entry;
                0
            }
        }
    }

    /// Adds unsuccessful polls, with `outside` of the thread's own work between them.
    pub(crate) fn polled(&mut self, function: u16, times: CallSpan, calls: u32, outside: u64) {
        let before = self.work(times);
        if before > WORKS {
            self.end_polls();
        }
        let polls = self.polls.get_or_insert(Polls {
            function,
            before,
            times,
            outside: 0,
            calls: 0,
        });
        if polls.calls > 0 {
            polls.outside = polls.outside.saturating_add(before);
        }
        polls.outside = polls.outside.saturating_add(outside);
        polls.calls = polls.calls.saturating_add(calls);
        polls.times.exit = times.exit;
        self.returned = Some(times.exit);
        if outside / u64::from(calls.saturating_sub(1).max(1)) > WORKS {
            self.end_polls();
        }
    }

    /// Turns the polls into regular calls.
    pub(crate) fn end_polls(&mut self) {
        if let Some(polls) = self.polls.take() {
            let extent = polls.times.exit.saturating_sub(polls.times.entry);
            let outside = polls.outside.min(extent);
            // Work between them is assumed to precede them.
            self.thread.calls.push(Call {
                function: polls.function,
                operations: 0,
                count: polls.calls,
                before: polls.before.saturating_add(outside),
                inside: extent - outside,
            });
        }
    }

    /// Ends the current call of `function`, with the operations added since the previous call.
    pub(crate) fn called(&mut self, function: u16, times: CallSpan) {
        let work = self.work(times);
        let operations = &self.thread.operations[self.begun..];
        let mut operations = operations.iter();
        let waits = operations.any(|operation| {
            matches!(
                operation,
                Operation::Wait { .. } | Operation::Probe { .. } | Operation::Test { .. }
            )
        });
        if !waits || work > WORKS {
            self.end_polls();
        }
        let (before, entry, polls) = match self.polls.take() {
            Some(polls) => (polls.before, polls.times.entry, polls.calls),
            None => (work, times.entry, 0),
        };
        let operations = self.thread.operations.len() - self.begun;
        self.begun = self.thread.operations.len();
        self.thread.calls.push(Call {
            function,
            operations: u32::try_from(operations).unwrap_or(u32::MAX),
            count: polls.saturating_add(1),
            before,
            inside: times.exit.saturating_sub(entry),
        });
        self.returned = Some(times.exit);
    }

    /// Sets the conditions of the previous call, which belongs to a schedule.
    pub(crate) fn scheduled(&mut self, conditions: Conditions) {
        self.thread.conditions.push(conditions);
    }

    /// Returns the number of its calls.
    pub(crate) fn calls(&self) -> usize {
        self.thread.calls.len()
    }

    /// Returns the thread, without operations of a call that never returned.
    pub(crate) fn finish(mut self) -> Thread {
        self.end_polls();
        self.thread.operations.truncate(self.begun);
        // Either all calls are scheduled or no call is.
        if self.thread.conditions.len() != self.thread.calls.len() {
            self.thread.conditions.clear();
        }
        self.thread
    }
}
