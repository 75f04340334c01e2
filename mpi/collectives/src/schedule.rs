//! A rank's part in an operation, step by step.
//!
//! Steps are in the order in which the library begins them; each has the steps that must be complete before it. Between two ranks messages do not overtake each other:
//! the `n`th message sent is the `n`th received. Built by `algorithms`; read by analyses and replay.

use std::ops::Range;

use crate::call::Call;

/// The action of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends a message.
    Send {
        /// To this rank of the communicator.
        to: u32,
        /// Bytes of data.
        bytes: u64,
    },
    /// Receives a message.
    Receive {
        /// From this rank of the communicator.
        from: u32,
        /// Bytes of data.
        bytes: u64,
    },
    /// Applies the reduction to this many local bytes and as many received ones.
    Combine {
        /// Bytes of data.
        bytes: u64,
    },
    /// Copies this many bytes within its memory, in addition to the copies of sends and receives.
    Copy {
        /// Bytes of data.
        bytes: u64,
    },
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its action.
    pub action: Action,
    /// The index range of the steps that must be complete before it begins, together with their own prerequisites.
    pub needs: Range<u32>,
}

/// A rank's steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub(crate) steps: Vec<Step>,
}

impl Schedule {
    /// Returns the steps, in the order in which they are begun.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the schedule repeated this many times, one after the other.
    #[must_use]
    pub fn repeated(&self, times: u32) -> Self {
        let mut steps = Vec::with_capacity(self.steps.len() * times as usize);
        for _ in 0..times {
            let before = steps.len() as u32;
            steps.extend(self.steps.iter().map(|step| Step {
                action: step.action,
                needs: after(&step.needs, before),
            }));
        }
        Self { steps }
    }

    /// Returns its sends: the receiving rank, and the bytes.
    pub fn sends(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.steps.iter().filter_map(|step| match step.action {
            Action::Send { to, bytes } => Some((to, bytes)),
            _ => None,
        })
    }
}

/// Returns a step's prerequisites when its schedule follows `before` steps, which are its prerequisites if it had no others.
pub(crate) fn after(needs: &Range<u32>, before: u32) -> Range<u32> {
    match needs.end {
        0 => 0..before,
        end => needs.start + before..end + before,
    }
}

/// A step's effect on the operation's data, for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A send of these blocks, with their contents at that time.
    Send(Vec<u64>),
    /// A send of the data received at this step, unchanged.
    Forward(usize),
    /// A receive whose data is stored at once.
    Receive,
    /// A receive whose data is to be combined later.
    Pending,
    /// Combination of the data received at these steps with the local data.
    Combine(Vec<usize>),
    /// No effect.
    Copy,
}

/// Builds a schedule.
#[derive(Debug)]
pub(crate) struct Builder {
    /// Builds an operation that is part of another one.
    compose: fn(&Call, &mut Self),
    steps: Vec<Step>,
    /// Prerequisites of the steps that are begun now.
    needs: Range<u32>,
    /// The effect of each step on data, if recorded.
    notes: Option<Vec<Note>>,
}

impl Builder {
    /// Creates a builder. `compose` builds operations that are part of others.
    pub(crate) fn new(compose: fn(&Call, &mut Self)) -> Self {
        Self {
            compose,
            steps: Vec::new(),
            needs: 0..0,
            notes: None,
        }
    }

    /// Makes the builder record notes on data.
    #[cfg(test)]
    pub(crate) fn noting(self) -> Self {
        Self {
            notes: Some(Vec::new()),
            ..self
        }
    }

    /// Builds an operation that is part of the present one.
    pub(crate) fn part(&mut self, call: &Call) {
        (self.compose)(call, self);
    }

    /// Returns the schedule.
    pub(crate) fn finish(self) -> Schedule {
        Schedule { steps: self.steps }
    }

    /// Returns the schedule, and its notes.
    #[cfg(test)]
    pub(crate) fn finish_noted(self) -> (Schedule, Vec<Note>) {
        (Schedule { steps: self.steps }, self.notes.unwrap())
    }

    fn push(&mut self, action: Action, note: impl FnOnce() -> Note) -> usize {
        let needs = self.needs.clone();
        self.steps.push(Step { action, needs });
        if let Some(notes) = &mut self.notes {
            notes.push(note());
        }
        self.steps.len() - 1
    }

    /// Makes the following steps wait for the steps begun since the last wait.
    pub(crate) fn wait(&mut self) {
        let end = self.steps.len() as u32;
        if self.needs.end < end {
            self.needs = self.needs.end..end;
        }
    }

    /// Begins a send that contains these `blocks` of the operation's data.
    pub(crate) fn begin_send(&mut self, to: u32, bytes: u64, blocks: impl FnOnce() -> Vec<u64>) {
        self.push(Action::Send { to, bytes }, || Note::Send(blocks()));
    }

    /// Begins a receive.
    pub(crate) fn begin_receive(&mut self, from: u32, bytes: u64) {
        self.push(Action::Receive { from, bytes }, || Note::Receive);
    }

    /// Begins a receive of data to be combined, and returns the step.
    pub(crate) fn begin_pending(&mut self, from: u32, bytes: u64) -> usize {
        self.push(Action::Receive { from, bytes }, || Note::Pending)
    }

    /// Sends.
    pub(crate) fn send(&mut self, to: u32, bytes: u64, blocks: impl FnOnce() -> Vec<u64>) {
        self.begin_send(to, bytes, blocks);
        self.wait();
    }

    /// Forwards the data received at this step.
    pub(crate) fn forward(&mut self, to: u32, bytes: u64, received: usize) {
        self.push(Action::Send { to, bytes }, || Note::Forward(received));
        self.wait();
    }

    /// Receives.
    pub(crate) fn receive(&mut self, from: u32, bytes: u64) {
        self.begin_receive(from, bytes);
        self.wait();
    }

    /// Receives data, and combines it with the local data.
    pub(crate) fn receive_combine(&mut self, from: u32, bytes: u64) {
        let received = self.begin_pending(from, bytes);
        self.wait();
        self.combine(bytes, received);
    }

    /// Combines the data received at this step with the local data.
    pub(crate) fn combine(&mut self, bytes: u64, received: usize) {
        self.push(Action::Combine { bytes }, || Note::Combine(vec![received]));
        self.wait();
    }

    /// Copies within its memory.
    pub(crate) fn copy(&mut self, bytes: u64) {
        if bytes > 0 {
            self.push(Action::Copy { bytes }, || Note::Copy);
            self.wait();
        }
    }

    /// Sends and receives at once. Both libraries post the receive first (`MPIC_Sendrecv` of MPICH, `ompi_coll_base_sendrecv` of Open MPI), so that a permission to send
    /// leaves before the data.
    pub(crate) fn exchange(
        &mut self,
        to: u32,
        sent: u64,
        blocks: impl FnOnce() -> Vec<u64>,
        from: u32,
        received: u64,
    ) {
        self.begin_receive(from, received);
        self.begin_send(to, sent, blocks);
        self.wait();
    }

    /// Sends and receives at once, and combines the received data with the local data.
    pub(crate) fn exchange_combine(
        &mut self,
        to: u32,
        sent: u64,
        blocks: impl FnOnce() -> Vec<u64>,
        from: u32,
        received: u64,
    ) {
        let step = self.begin_pending(from, received);
        self.begin_send(to, sent, blocks);
        self.wait();
        self.combine(received, step);
    }
}
