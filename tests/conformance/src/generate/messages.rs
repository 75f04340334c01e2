//! Messages of a job: their two sides, and how receives are wild.
//!
//! A job sends only messages that some receive takes, and no receive waits for a message that is not sent. Called by
//! the generator.

use super::Generator;
use crate::job::{Action, ActorId, CommunicatorId, Form, OperationId, SendMode};
use crate::simulate::EAGER;

/// The tag of receives that are cancelled, which no message has.
const NEVER: i32 = 99;

/// Wildcards of one rank's receives on one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discipline {
    /// By the tag: named, or from any source.
    ByTag,
    /// From a named source, with any tag.
    AnyTag,
    /// From any source, with any tag.
    Any,
}

/// The two ends of a message that is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) communicator: CommunicatorId,
    pub(super) from: ActorId,
    pub(super) to: ActorId,
}

impl Generator<'_> {
    /// Two actors of different ranks that a communicator joins.
    pub(super) fn ends(&mut self) -> Option<Ends> {
        let communicator = self.below(self.job.communicators.len() as u64) as CommunicatorId;
        let [from, to] = [(); 2].map(|()| self.below(self.job.actors.len() as u64) as ActorId);
        let ranks = [from, to].map(|actor| self.job.actors[actor].rank);
        // Other threads may come before the first one has made a communicator.
        let actors = [from, to];
        let mut threads = actors.iter().map(|actor| self.job.actors[*actor].thread);
        let made = communicator == 0 || threads.all(|thread| thread == 0);
        let joined = made && self.job.communicators[communicator].joins(ranks);
        joined.then_some(Ends {
            communicator,
            from,
            to,
        })
    }

    fn discipline(&mut self, communicator: CommunicatorId, to: u32) -> Discipline {
        if let Some(own) = self.disciplines.get(&(communicator, to)) {
            return *own;
        }
        let wild = self.kinds.wildcards || self.kinds.wildcards_without_status;
        // Threads of one rank would take each other's messages.
        let threads = self.job.actors.iter().any(|actor| actor.thread > 0);
        let discipline = match self.below(6) {
            0 if wild && !threads => Discipline::AnyTag,
            1 if wild && !threads => Discipline::Any,
            _ => Discipline::ByTag,
        };
        self.disciplines.insert((communicator, to), discipline);
        discipline
    }

    /// True if receives of a rank on a communicator name their tags.
    pub(super) fn is_by_tag(&mut self, communicator: CommunicatorId, to: u32) -> bool {
        self.discipline(communicator, to) == Discipline::ByTag
    }

    /// A message's two sides; whether it must be eager is said by the receive.
    pub(super) fn sides(&mut self, ends: Ends) -> (OperationId, OperationId) {
        let [from, to] = [ends.from, ends.to]
            .map(|actor| (self.job.actors[actor].rank, self.job.actors[actor].thread));
        let discipline = self.discipline(ends.communicator, to.0);
        let wild = self.kinds.wildcards || self.kinds.wildcards_without_status;
        let any_source = discipline == Discipline::ByTag && wild && self.one_in(4);
        let threads = 100 * (from.1 + 2 * to.1) as i32;
        let tag = threads + self.below(3) as i32 + if any_source { 10 } else { 0 };
        let wanted = match discipline {
            Discipline::ByTag if any_source => (None, Some(tag)),
            Discipline::ByTag => (Some(from.0), Some(tag)),
            Discipline::AnyTag => (Some(from.0), None),
            Discipline::Any => (None, None),
        };
        let is_wild = wanted.0.is_none() || wanted.1.is_none();
        let status = match is_wild {
            false => self.one_in(2),
            true => !self.kinds.wildcards_without_status || self.kinds.wildcards && self.one_in(2),
        };
        let (bytes, mode) = self.size_and_mode(is_wild);
        let send = Action::Send {
            to: to.0,
            tag,
            bytes,
            mode,
        };
        let (from, tag) = wanted;
        let receive = Action::Receive {
            from,
            tag,
            room: 200_000,
            status,
        };
        (
            self.operation(ends.from, ends.communicator, send),
            self.operation(ends.to, ends.communicator, receive),
        )
    }

    /// Bytes that no other message has, and a mode.
    pub(super) fn size_and_mode(&mut self, eager: bool) -> (u64, SendMode) {
        self.messages += 1;
        let large = !eager && self.one_in(5);
        let bytes = 16 * self.messages + 7 + if large { EAGER } else { 0 };
        let mode = match self.below(8) {
            0 if self.kinds.modes && !eager => SendMode::Synchronous,
            1 if self.kinds.modes => SendMode::Buffered,
            2 if self.kinds.modes => SendMode::Ready,
            _ => SendMode::Standard,
        };
        (bytes, mode)
    }

    pub(super) fn message(&mut self) {
        let Some(ends) = self.ends() else { return };
        let (send, receive) = self.sides(ends);
        let nonblocking = self.kinds.nonblocking && self.one_in(2);
        self.begin(ends.from, send, nonblocking);
        let nonblocking = self.kinds.nonblocking && self.one_in(2) && self.may_pend(receive);
        match self.below(8) {
            0 if self.kinds.probes => self.push(ends.to, Form::Probed, vec![receive]),
            1 if self.kinds.probes => self.push(ends.to, Form::Matched, vec![receive]),
            _ => self.begin(ends.to, receive, nonblocking),
        }
    }

    /// True if a receive may stay open while others are posted.
    pub(super) fn may_pend(&self, receive: OperationId) -> bool {
        let action = self.job.operations[receive].action;
        let wild = matches!(
            action,
            Action::Receive { from: None, .. } | Action::Receive { tag: None, .. }
        );
        !wild || self.kinds.pending_wildcards
    }

    /// Two ranks exchange messages by `MPI_Sendrecv`.
    pub(super) fn exchange(&mut self) {
        let Some(ends) = self.ends() else { return };
        let (there, received) = self.sides(ends);
        let back = Ends {
            from: ends.to,
            to: ends.from,
            ..ends
        };
        let (here, got) = self.sides(back);
        for send in [there, here] {
            self.make_standard(send);
        }
        self.push(ends.from, Form::Blocking, vec![there, got]);
        self.push(ends.to, Form::Blocking, vec![here, received]);
    }

    /// A receive that is cancelled before any message comes for it.
    pub(super) fn cancel(&mut self) {
        let Some(ends) = self.ends() else { return };
        let to = self.job.actors[ends.to].rank;
        if !self.is_by_tag(ends.communicator, to) {
            return;
        }
        let from = Some(self.job.actors[ends.from].rank);
        let action = Action::Receive {
            from,
            tag: Some(NEVER),
            room: 64,
            status: self.one_in(2),
        };
        let operation = self.operation(ends.to, ends.communicator, action);
        self.push(ends.to, Form::Begin, vec![operation]);
        self.push(ends.to, Form::Cancel, vec![operation]);
        self.push(ends.to, Form::Wait, vec![operation]);
    }

    /// A send or receive that returns an error.
    pub(super) fn fail(&mut self) {
        let Some(ends) = self.ends() else { return };
        let (bytes, mode) = self.size_and_mode(true);
        let to = self.job.actors[ends.to].rank;
        let action = match self.one_in(2) {
            true => Action::Send {
                to,
                tag: 0,
                bytes,
                mode,
            },
            false => Action::Receive {
                from: Some(to),
                tag: Some(0),
                room: 64,
                status: true,
            },
        };
        let operation = self.operation(ends.from, ends.communicator, action);
        self.push(ends.from, Form::Fail, vec![operation]);
    }

    /// Makes a send one that does not wait for its receive.
    pub(super) fn make_buffered(&mut self, send: OperationId) {
        if let Action::Send { mode, .. } = &mut self.job.operations[send].action {
            *mode = SendMode::Buffered;
        }
    }

    /// Makes a send a standard one.
    pub(super) fn make_standard(&mut self, send: OperationId) {
        if let Action::Send { mode, .. } = &mut self.job.operations[send].action {
            *mode = SendMode::Standard;
        }
    }
}
