//! Calls that never return, as at the end of a job that is cut off.
//!
//! They come after all that completes, so that no other call waits for them. Called by the generator at its end.

use super::Generator;
use crate::job::{Action, Form, SendMode};

/// The tag of receives that no message is for.
const NO_MESSAGE: i32 = 97;
/// The tag of messages that no receive is for.
const NO_RECEIVE: i32 = 98;

impl Generator<'_> {
    /// A side of a message without a counterpart: a blocking call, or a nonblocking one and its wait. Some sends return
    /// nevertheless.
    pub(super) fn cut_message(&mut self) {
        let Some(ends) = self.ends() else { return };
        let [from, to] = [ends.from, ends.to].map(|actor| self.job.actors[actor].rank);
        if !self.is_by_tag(ends.communicator, to) {
            return;
        }
        self.job.is_cut = true;
        let (bytes, mode) = self.size_and_mode(false);
        let mode = match self.kinds.modes && mode != SendMode::Ready {
            true => mode,
            false => SendMode::Standard,
        };
        let (actor, action) = match self.one_in(2) {
            true => {
                let tag = NO_RECEIVE;
                (
                    ends.from,
                    Action::Send {
                        to,
                        tag,
                        bytes,
                        mode,
                    },
                )
            }
            false => {
                let action = Action::Receive {
                    from: Some(from),
                    tag: Some(NO_MESSAGE),
                    room: 64,
                    status: self.one_in(2),
                };
                (ends.to, action)
            }
        };
        let operation = self.operation(actor, ends.communicator, action);
        let nonblocking = self.kinds.nonblocking && self.one_in(2);
        match nonblocking {
            true => {
                self.push(actor, Form::Begin, vec![operation]);
                self.push(actor, Form::Wait, vec![operation]);
            }
            false => self.push(actor, Form::Blocking, vec![operation]),
        }
    }

    /// A collective operation that one member never enters.
    pub(super) fn cut_collective(&mut self) {
        let communicator = self.group();
        let mut parts = self.parts(communicator);
        if parts.len() < 2 {
            return;
        }
        self.job.is_cut = true;
        let missing = self.below(parts.len() as u64) as usize;
        parts.remove(missing);
        for (actor, action) in parts {
            let operation = self.operation(actor, communicator, action);
            self.push(actor, Form::Blocking, vec![operation]);
        }
    }
}
