//! Threads: entering and leaving calls.
//!
//! A call executes all its operations at its entry, one after the other on its process's processor, and then waits for the incomplete
//! ones. They may complete in any order; the work for each is done in the order of completion. Used by the engine.

use std::collections::VecDeque;

use belljar_networks::Network;
use belljar_program::{Operation, Thread};
use serde::{Deserialize, Serialize};

use super::sequence::{EnteredCall, Suspended};
use super::waiting::{WaitingCall, WaitingCalls};
use super::{CallTimes, Engine, Event, OperationId, Party, Timing};

/// The state of a thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ThreadState {
    /// The next call.
    call: usize,
    /// The index of its first operation.
    operation: usize,
    /// The operation of each slot.
    pub(super) slots: Vec<Option<OperationId>>,
    pub(super) waiting: WaitingCalls,
    /// The call that waits for a flush before its remaining operations.
    pub(super) suspended: Option<Suspended>,
    /// Calls that were entered meanwhile, in a calibration.
    pub(super) entered: VecDeque<EnteredCall>,
    /// Number of points that its next call still waits for.
    pub(super) missing: u32,
    /// Times by call, if they are kept.
    #[serde(skip)]
    times: Vec<CallTimes>,
    returned: usize,
}

impl ThreadState {
    pub(super) fn new(thread: &Thread) -> Self {
        Self {
            call: 0,
            operation: 0,
            slots: vec![None; thread.slots as usize],
            waiting: WaitingCalls::default(),
            suspended: None,
            entered: VecDeque::new(),
            missing: 0,
            times: vec![CallTimes::default(); thread.calls.len()],
            returned: 0,
        }
    }

    /// Creates it without times of calls.
    pub(super) fn without_times(thread: &Thread) -> Self {
        Self {
            times: Vec::new(),
            ..Self::new(thread)
        }
    }

    /// True if this is a possible state of this thread, among this many threads.
    pub(super) fn is_sound(&self, thread: &Thread) -> bool {
        let calls = thread.calls.len();
        let mut entered = self.entered.iter();
        let suspended = self.suspended.as_ref();
        let mut waiting = self.waiting.iter();
        self.call <= calls
            && self.returned <= calls
            && self.operation <= thread.operations.len()
            && self.slots.len() == thread.slots as usize
            && waiting.all(|waiting| (waiting.call as usize) < calls)
            && suspended.is_none_or(|it| it.is_sound(thread))
            && entered.all(|it| it.is_sound(thread))
    }

    /// Returns the next call.
    pub(super) fn next_call(&self) -> usize {
        self.call
    }

    /// Returns the number of calls that returned.
    pub(super) fn returned(&self) -> usize {
        self.returned
    }

    /// Returns the times of those calls.
    pub(super) fn times(mut self) -> Vec<CallTimes> {
        self.times.truncate(self.returned);
        self.times
    }
}

/// True if the library looks for arrivals in a call with this operation.
pub(super) fn looks(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Wait { .. }
            | Operation::Probe { .. }
            | Operation::Test { .. }
            | Operation::Collective { .. }
    )
}

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// Enters a thread's next call.
    pub(super) fn enter(&mut self, now: u64, number: u32) {
        let program = self.program;
        let thread = &program.threads[number as usize];
        let process = thread.process;
        let state = &mut self.threads[number as usize];
        let Some(call) = thread.calls.get(state.call) else {
            return;
        };
        let (index, first) = (state.call, state.operation);
        state.call += 1;
        state.operation += call.operations as usize;
        let last = state.operation.min(thread.operations.len());
        let scheduled = self.is_scheduled(number);
        let cpu = &mut self.processes[process as usize].cpu;
        // Other threads of a schedule may be working in MPI.
        *cpu = if scheduled { now.max(*cpu) } else { now };
        let operations = &thread.operations[first.min(last)..last];
        // A call that only begins operations leaves the library no time to look for arrivals.
        let looks = operations.iter().any(looks) || operations.is_empty();
        self.as_traced(now, number, index, looks);
        let entered = EnteredCall {
            call: index as u32,
            entry: now,
            operations: (first.min(last), last),
        };
        let state = &mut self.threads[number as usize];
        if state.suspended.is_some() || !state.entered.is_empty() {
            state.entered.push_back(entered);
        } else {
            self.begin_call(now, number, entered);
        }
        if scheduled {
            self.release(now, number, index);
        }
    }

    /// In a calibration, schedules the call's return and the next entry at the times of the trace.
    fn as_traced(&mut self, now: u64, number: u32, index: usize, looks: bool) {
        if matches!(self.timing, Timing::Replayed(_)) {
            return;
        }
        let thread = &self.program.threads[number as usize];
        let exit = now.saturating_add(thread.calls[index].inside);
        if looks {
            let process = &mut self.processes[thread.process as usize];
            process.until = process.until.max(exit);
        }
        let times = &mut self.threads[number as usize].times[index];
        (times.entry, times.exit) = (now, exit);
        if let Some(next) = thread.calls.get(index + 1) {
            self.schedule_event(exit.saturating_add(next.before), Event::Enters(number));
        }
    }

    /// Lets a process that is in MPI see the arrivals.
    pub(super) fn look(&mut self, process: u32, now: u64) {
        let until = &mut self.processes[process as usize].until;
        *until = (*until).max(now);
        self.do_deferred(process, now);
    }

    /// Executes one of a call's operations.
    pub(super) fn operate(
        &mut self,
        now: u64,
        number: u32,
        operation: Operation,
        waiting: &mut WaitingCall,
    ) {
        let process = self.program.threads[number as usize].process;
        match operation {
            Operation::Send {
                channel,
                slot,
                bytes,
                mode,
                pieces,
            } => {
                let party = Party::Operation(self.begin(number, slot));
                self.send(now, channel, party, bytes, mode, pieces);
            }
            Operation::Receive {
                channel,
                slot,
                pieces,
            } => {
                let party = Party::Operation(self.begin(number, slot));
                self.work(process, now, self.spans.begin(process));
                self.receive(now, channel, (party, pieces));
            }
            Operation::Access {
                channel,
                slot,
                sent,
                received,
                completion,
            } => {
                let party = Party::Operation(self.begin(number, slot));
                self.access(now, channel, party, sent, received, completion);
            }
            Operation::Lock {
                channel,
                slot,
                window,
                how,
            } => {
                let party = Party::Operation(self.begin(number, slot));
                self.lock(now, channel, party, window, how);
            }
            Operation::SendPartitioned {
                channel,
                slot,
                bytes,
                message,
                pieces,
            } => {
                let party = Party::Operation(self.begin(number, slot));
                self.send_partitioned(now, channel, party, bytes, pieces, message);
            }
            Operation::Ready { message } => self.ready(now, message),
            Operation::Collective {
                collective,
                part,
                slot,
            } => {
                let operation = self.begin(number, slot);
                self.take_part(now, process, operation, collective, part);
            }
            // `proceed` begins flushes.
            Operation::Flush { .. } => {}
            Operation::Nothing { slot } => {
                let operation = self.begin(number, slot);
                self.end(now, Party::Operation(operation), 0);
            }
            Operation::Probe { .. } | Operation::Test { .. } | Operation::Wait { .. } => {
                self.attend(now, number, operation, waiting);
            }
        }
    }

    /// Makes a call wait for an operation, if it is not complete.
    fn attend(&mut self, now: u64, number: u32, operation: Operation, waiting: &mut WaitingCall) {
        match operation {
            Operation::Probe { channel } => match self.is_there(channel) {
                true => {
                    let process = self.program.threads[number as usize].process;
                    waiting.over.push((now, self.spans.begin(process)));
                }
                false => {
                    let operation = self.operations.insert(super::OperationState {
                        ready: None,
                        cost: 0,
                        waiter: Some((number, waiting.call)),
                        stays: false,
                    });
                    waiting.left += 1;
                    self.look_for(channel, operation);
                }
            },
            Operation::Test { slot } => {
                let slots = &self.threads[number as usize].slots;
                let operation = slots.get(slot as usize).copied().flatten();
                if let Some(under) = operation.and_then(|it| self.operations.get_mut(it))
                    && under.ready.is_none()
                {
                    under.waiter = Some((number, waiting.call));
                    under.stays = true;
                    waiting.left += 1;
                }
            }
            Operation::Wait { slot } => {
                let state = &mut self.threads[number as usize];
                let place = state.slots.get_mut(slot as usize);
                let Some(operation) = place.and_then(Option::take) else {
                    return;
                };
                let Some(under) = self.operations.get_mut(operation) else {
                    return;
                };
                match under.ready {
                    Some(ready) => {
                        waiting.over.push((ready, under.cost));
                        self.operations.remove(operation);
                    }
                    None => {
                        under.waiter = Some((number, waiting.call));
                        waiting.left += 1;
                    }
                }
            }
            _ => {}
        }
    }

    /// Handles a completed operation: a call that only waits for it returns.
    pub(super) fn operation_over(&mut self, now: u64, operation: OperationId, cost: u64) {
        let Some(under) = self.operations.get_mut(operation) else {
            return;
        };
        under.ready = Some(now);
        under.cost = cost;
        let Some((number, call)) = under.waiter.take() else {
            return;
        };
        match std::mem::take(&mut under.stays) {
            true => under.cost = 0,
            false => {
                self.operations.remove(operation);
            }
        }
        let state = &mut self.threads[number as usize];
        let Some(waiting) = state.waiting.over(call, (now, cost)) else {
            return;
        };
        let process = self.program.threads[number as usize].process;
        let blocked = &mut self.processes[process as usize].blocked;
        *blocked = blocked.saturating_sub(1);
        self.leave(number, waiting);
    }

    /// Handles the return of a call whose operations are all complete.
    pub(super) fn leave(&mut self, number: u32, mut waiting: WaitingCall) {
        let thread = &self.program.threads[number as usize];
        let index = waiting.call as usize;
        let traced = thread.calls[index];
        waiting.over.sort_unstable();
        let mut now = waiting.done;
        let mut waited = waiting.flushing;
        // It cannot return before its operations are complete, even with a negative residual.
        let last = waiting.over.last().map_or(0, |(over, _)| *over);
        for (over, cost) in waiting.over {
            waited = u64::saturating_add(waited, over.saturating_sub(now));
            now = now.max(over).saturating_add(cost);
        }
        let entry = waiting.entry;
        let took = now.saturating_sub(entry);
        let state = &mut self.threads[number as usize];
        state.returned += 1;
        let mut unwanted = CallTimes::default();
        let times = state.times.get_mut(index).unwrap_or(&mut unwanted);
        times.waited = waited;
        match &mut self.timing {
            Timing::Traced(residuals) => {
                residuals[number as usize][index] =
                    (traced.inside as i64).saturating_sub(took as i64);
            }
            Timing::Replayed(residuals) => {
                let residual = residuals[number as usize][index] as f64 * self.scale;
                let exit = now.saturating_add_signed(residual as i64);
                let exit = exit.max(entry).max(last);
                (times.entry, times.exit) = (entry, exit);
                times.waited = waited.min(exit - entry);
                let process = &mut self.processes[thread.process as usize];
                process.until = process.until.max(exit);
                let next = thread.calls.get(index + 1);
                if !thread.conditions.is_empty() {
                    self.leave_scheduled(exit, number, index);
                } else if let Some(next) = next {
                    let before = (next.before as f64 * self.scale) as u64;
                    self.schedule_event(exit.saturating_add(before), Event::Enters(number));
                }
                if next.is_none() {
                    self.schedule_event(exit, Event::Ends(number));
                }
            }
        }
    }
}
