//! A rank's part in an operation, step by step.
//!
//! Steps stand in the order in which the library begins them; each says which steps before it must be over. Between two ranks
//! messages do not overtake each other: the `n`th that one sends to the other is the `n`th that the other receives from it. Built by
//! `algorithms`; read by analyses and replay.

use std::ops::Range;

use crate::nodes::Stage;

/// What a step does.
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
    /// Applies the reduction to so many bytes that it has and as many that came.
    Combine {
        /// Bytes of data.
        bytes: u64,
    },
    /// Copies so many bytes within its memory, besides what sends and receives do.
    Copy {
        /// Bytes of data.
        bytes: u64,
    },
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// The steps, by their index, that must be over before it begins; with them those that they need.
    pub needs: Range<u32>,
}

/// A rank's steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    steps: Vec<Step>,
}

impl Schedule {
    /// The steps, in the order in which they are begun.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The same so many times, each after the one before.
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

    /// The schedules of stages, each after the one before.
    #[must_use]
    pub fn of_stages(stages: &[Stage]) -> Self {
        let mut steps = Vec::new();
        for stage in stages {
            let before = steps.len() as u32;
            let rank = |place: u32| stage.ranks.get(place as usize).copied().unwrap_or(u32::MAX);
            let schedule = stage.algorithm.schedule(&stage.call);
            steps.extend(schedule.steps.iter().map(|step| Step {
                action: match step.action {
                    Action::Send { to, bytes } => Action::Send {
                        to: rank(to),
                        bytes,
                    },
                    Action::Receive { from, bytes } => Action::Receive {
                        from: rank(from),
                        bytes,
                    },
                    own => own,
                },
                needs: after(&step.needs, before),
            }));
        }
        Self { steps }
    }

    /// What it sends: to which rank, and how many bytes.
    pub fn sends(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.steps.iter().filter_map(|step| match step.action {
            Action::Send { to, bytes } => Some((to, bytes)),
            _ => None,
        })
    }
}

/// The steps that a step needs when its schedule follows so many steps: all of those where it needed none.
fn after(needs: &Range<u32>, before: u32) -> Range<u32> {
    match needs.end {
        0 => 0..before,
        end => needs.start + before..end + before,
    }
}

/// What a step has to do with the operation's data, for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A send of these blocks, as they are then.
    Send(Vec<u64>),
    /// A send of what came by the receive at this step, as it came.
    Forward(usize),
    /// A receive whose data is there at once.
    Receive,
    /// A receive whose data waits to be combined.
    Pending,
    /// What came by the receives at these steps is combined, each with what is there.
    Combine(Vec<usize>),
    /// Nothing.
    Copy,
}

/// Builds a schedule.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    steps: Vec<Step>,
    /// What steps need that are begun now.
    needs: Range<u32>,
    /// What each step has to do with data, where that is wanted.
    notes: Option<Vec<Note>>,
}

impl Builder {
    /// One that takes notes of data.
    #[cfg(test)]
    pub(crate) fn noting() -> Self {
        Self {
            notes: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// The schedule.
    pub(crate) fn finish(self) -> Schedule {
        Schedule { steps: self.steps }
    }

    /// The schedule, and its notes.
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

    /// What comes now waits for what was begun since the last wait.
    pub(crate) fn wait(&mut self) {
        let end = self.steps.len() as u32;
        if self.needs.end < end {
            self.needs = self.needs.end..end;
        }
    }

    /// Begins to send; `blocks` are those of the operation's data that are in it.
    pub(crate) fn begin_send(&mut self, to: u32, bytes: u64, blocks: impl FnOnce() -> Vec<u64>) {
        self.push(Action::Send { to, bytes }, || Note::Send(blocks()));
    }

    /// Begins to receive.
    pub(crate) fn begin_receive(&mut self, from: u32, bytes: u64) {
        self.push(Action::Receive { from, bytes }, || Note::Receive);
    }

    /// Begins to receive what is to be combined; returns the step.
    pub(crate) fn begin_pending(&mut self, from: u32, bytes: u64) -> usize {
        self.push(Action::Receive { from, bytes }, || Note::Pending)
    }

    /// Sends.
    pub(crate) fn send(&mut self, to: u32, bytes: u64, blocks: impl FnOnce() -> Vec<u64>) {
        self.begin_send(to, bytes, blocks);
        self.wait();
    }

    /// Sends on what came by the receive at this step.
    pub(crate) fn forward(&mut self, to: u32, bytes: u64, received: usize) {
        self.push(Action::Send { to, bytes }, || Note::Forward(received));
        self.wait();
    }

    /// Receives.
    pub(crate) fn receive(&mut self, from: u32, bytes: u64) {
        self.begin_receive(from, bytes);
        self.wait();
    }

    /// Receives, and combines that with what it has.
    pub(crate) fn receive_combine(&mut self, from: u32, bytes: u64) {
        let received = self.begin_pending(from, bytes);
        self.wait();
        self.combine(bytes, received);
    }

    /// Combines what came by the receive at this step with what it has.
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
        (to, sent): (u32, u64),
        blocks: impl FnOnce() -> Vec<u64>,
        (from, received): (u32, u64),
    ) {
        self.begin_receive(from, received);
        self.begin_send(to, sent, blocks);
        self.wait();
    }

    /// The same, and combines what it received with what it has.
    pub(crate) fn exchange_combine(
        &mut self,
        (to, sent): (u32, u64),
        blocks: impl FnOnce() -> Vec<u64>,
        (from, received): (u32, u64),
    ) {
        let step = self.begin_pending(from, received);
        self.begin_send(to, sent, blocks);
        self.wait();
        self.combine(received, step);
    }
}
