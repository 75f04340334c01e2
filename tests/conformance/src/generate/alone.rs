//! Messages without another rank: to the own one, and to and from `MPI_PROC_NULL`.
//!
//! A rank's message to itself never deadlocks: its receive is begun before or together with a send that waits for it. Called by the generator.

use super::Generator;
use super::messages::Ends;
use crate::job::{Action, ActorId, Form, OperationId};

impl Generator<'_> {
    /// A message of a rank to itself.
    pub(super) fn own_message(&mut self) {
        let actor = self.below(self.job.actors.len() as u64) as ActorId;
        let own = self.job.communicators.iter().position(|it| it.own);
        let communicator = own.filter(|_| self.one_in(2)).unwrap_or(0);
        let (send, receive) = self.sides(Ends {
            communicator,
            from: actor,
            to: actor,
        });
        match self.below(3) {
            0 if self.kinds.exchanges => {
                self.make_standard(send);
                self.push(actor, Form::Blocking, vec![send, receive]);
            }
            1 if self.kinds.nonblocking && self.may_pend(receive) => {
                self.begin(actor, receive, true);
                self.begin(actor, send, false);
            }
            _ if self.kinds.nonblocking => {
                self.begin(actor, send, true);
                let nonblocking = self.one_in(2) && self.may_pend(receive);
                self.begin(actor, receive, nonblocking);
            }
            _ => {
                self.make_buffered(send);
                self.begin(actor, send, false);
                self.begin(actor, receive, false);
            }
        }
    }

    /// A send to or a receive from `MPI_PROC_NULL`, or a shift with such ends.
    pub(super) fn null_peer(&mut self) {
        if self.kinds.exchanges && self.one_in(4) {
            self.shift();
            return;
        }
        let actor = self.below(self.job.actors.len() as u64) as ActorId;
        let sends = self.one_in(2);
        let operation = self.nothing(actor, 0, sends);
        match self.below(3) {
            0 if self.kinds.nonblocking => self.begin(actor, operation, true),
            1 if self.kinds.persistent => self.prepare(vec![operation]),
            _ => self.begin(actor, operation, false),
        }
    }

    fn nothing(&mut self, actor: ActorId, communicator: usize, sends: bool) -> OperationId {
        let status = self.one_in(2);
        self.operation(actor, communicator, Action::Nothing { sends, status })
    }

    /// Two ranks shift a message by `MPI_Sendrecv`; the first and the last one have `MPI_PROC_NULL` as a partner.
    fn shift(&mut self) {
        let Some(ends) = self.ends() else { return };
        let (send, receive) = self.sides(ends);
        self.make_standard(send);
        let before = self.nothing(ends.from, ends.communicator, false);
        let after = self.nothing(ends.to, ends.communicator, true);
        self.push(ends.from, Form::Blocking, vec![send, before]);
        self.push(ends.to, Form::Blocking, vec![after, receive]);
    }
}
