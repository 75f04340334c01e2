//! A thread's program in the making.
//!
//! Calls come in the order of the trace. Polls that found nothing are no calls of their own: a thread that does nothing else
//! than ask again is waiting, and when it asks how often depends on how long that takes. They are part of the call that ends
//! the waiting. Called by `extract`.

use crate::program::{Call, Conditions, Operation, Slot, Thread};

/// Picoseconds of work between two polls from which on they are no waiting: a program that looks now and then whether something
/// has come, and computes meanwhile.
const WORKS: u64 = 2_000_000;

/// A thread's program, as far as its calls have come.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    thread: Thread,
    /// When its last call returned, in picoseconds.
    returned: Option<u64>,
    /// Slots that stand for nothing.
    free: Vec<Slot>,
    /// Where in the thread's operations those of the present call begin.
    begun: usize,
    /// Polls since its last call that found nothing.
    polls: Option<Polls>,
}

/// Polls that found nothing and follow one another.
#[derive(Clone, Copy, Debug)]
struct Polls {
    function: u16,
    /// Picoseconds of work before the first.
    before: u64,
    /// From the first's entry to the last's return.
    times: Times,
    /// How much of that was in none of them.
    outside: u64,
    calls: u32,
}

/// When a call was entered and left, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) entry: u64,
    pub(crate) exit: u64,
}

impl Growing {
    /// Of this thread of this process, which has that number on its node.
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

    /// Where the next operation will stand.
    pub(crate) fn next(&self) -> usize {
        self.thread.operations.len()
    }

    /// The operations of its calls so far, each with the entry of its call in picoseconds.
    pub(crate) fn timed(&self) -> impl Iterator<Item = (&Operation, u64)> {
        let calls = self.thread.calls.iter().zip(self.thread.traced());
        let entries = calls
            .flat_map(|(call, (entry, _))| std::iter::repeat_n(entry, call.operations as usize));
        self.thread.operations.iter().zip(entries)
    }

    /// A slot for an operation.
    pub(crate) fn slot(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(|| {
            self.thread.slots += 1;
            self.thread.slots - 1
        })
    }

    /// The present call does this.
    pub(crate) fn push(&mut self, operation: Operation) {
        self.thread.operations.push(operation);
    }

    /// The present call waits for what the slot stands for.
    pub(crate) fn wait(&mut self, slot: Slot) {
        self.push(Operation::Wait { slot });
        self.free.push(slot);
    }

    /// The operation that stands there turned out to be this.
    pub(crate) fn mend(&mut self, at: usize, operation: Operation) {
        if let Some(place) = self.thread.operations.get_mut(at) {
            *place = operation;
        }
    }

    /// Picoseconds of the thread's own work before a call.
    fn work(&mut self, times: Times) -> u64 {
        match self.returned {
            Some(returned) => times.entry.saturating_sub(returned),
            None => {
                self.thread.start = times.entry;
                0
            }
        }
    }

    /// So many polls found nothing, with so much of the thread's own work among them.
    pub(crate) fn polled(&mut self, function: u16, times: Times, calls: u32, outside: u64) {
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

    /// The polls were calls like others.
    pub(crate) fn end_polls(&mut self) {
        if let Some(polls) = self.polls.take() {
            let extent = polls.times.exit.saturating_sub(polls.times.entry);
            let outside = polls.outside.min(extent);
            // Whatever was done among them was done before, as far as anybody can see.
            self.thread.calls.push(Call {
                function: polls.function,
                operations: 0,
                count: polls.calls,
                before: polls.before.saturating_add(outside),
                inside: extent - outside,
            });
        }
    }

    /// The present call of `function` is over; it has the operations that were pushed since the call before.
    pub(crate) fn called(&mut self, function: u16, times: Times) {
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

    /// The call before, which is one of a schedule, has these conditions.
    pub(crate) fn scheduled(&mut self, conditions: Conditions) {
        self.thread.conditions.push(conditions);
    }

    /// How many calls it has made.
    pub(crate) fn calls(&self) -> usize {
        self.thread.calls.len()
    }

    /// The thread; what a call does that never returned is left out.
    pub(crate) fn finish(mut self) -> Thread {
        self.end_polls();
        self.thread.operations.truncate(self.begun);
        // Calls are scheduled all or not at all.
        if self.thread.conditions.len() != self.thread.calls.len() {
            self.thread.conditions.clear();
        }
        self.thread
    }
}
