//! Receives that are complete: what they got.
//!
//! A status tells it, or it is deduced once all sends are known that may be meant. Called by `collect` at calls that
//! complete receives, now and then, and at the end.

use belljar_trace::Status;

use super::{Receive, WaitCollector};
use crate::communicators::ProcessKey;
use crate::matching::{Operation, Settled};

impl WaitCollector<'_> {
    /// A receive is complete since a time, with this status if the program asked for one.
    pub(super) fn received(
        &mut self,
        process: ProcessKey,
        (part, at): (Operation, u64),
        status: Option<Status>,
    ) {
        let Some(own) = self.parts.get_mut(&part) else {
            return;
        };
        let Some(receive) = own.receive else {
            return;
        };
        let to = (receive.communicator, own.member);
        if receive.known {
            self.matcher.ended(to, part, at);
            return;
        }
        own.receive = Some(Receive {
            known: true,
            ..receive
        });
        let got = status.and_then(|status| {
            let from = self
                .communicators
                .peer(process, receive.number, status.source)?;
            Some((from, status.tag))
        });
        match got {
            Some(got) => {
                let mut found = Vec::new();
                self.matcher.got(to, part, got, &mut found);
                self.pair_all(found);
            }
            None if status.is_none() && !self.cancelling.contains(&process) => {
                self.matcher.ended(to, part, at);
            }
            None => self.lose(part),
        }
    }

    /// Deduces what receives got of which nothing tells it, as far as all sends are known that may be meant; at the end, of
    /// all of them.
    pub(super) fn settle_untold(&mut self, end: bool) {
        let mut settled = Settled::default();
        self.matcher.settle(self.horizon.value(), end, &mut settled);
        self.pair_all(settled.found);
        for part in settled.lost {
            self.unresolved += 1;
            self.resolve(part, (None, None));
        }
    }

    /// It cannot be told what a receive got.
    fn lose(&mut self, part: Operation) {
        self.unresolved += 1;
        self.withdraw(part);
    }
}
