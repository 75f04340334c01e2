//! Requests of observers, handled between rounds.
//!
//! Only input reaches the guests. It gets a virtual time that no node has passed, and is recorded with
//! it, so that the run can be repeated. Called by the coordinator before each round.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Run, RunError};
use crate::observe::control::{Look, Mailbox};

impl Run {
    /// Handles requests of `mailbox` from now on.
    pub fn attend_to(&mut self, mailbox: Arc<Mailbox>) {
        self.mailbox = Some(mailbox);
    }

    /// The number of input pieces typed into consoles.
    pub fn typed(&self) -> u64 {
        self.typed
    }

    /// True if a client limits virtual time, and may still send input.
    pub(super) fn is_attended(&self) -> bool {
        self.mailbox
            .as_ref()
            .is_some_and(|mailbox| mailbox.is_attended())
    }

    /// Handles the control socket's requests, and waits while virtual time is paused.
    pub(super) fn attend(&mut self, stop: &AtomicBool) -> Result<(), RunError> {
        let called = self.mailbox.as_ref().filter(|mailbox| mailbox.is_called());
        let Some(mailbox) = called.cloned() else {
            return Ok(());
        };
        while !stop.load(Ordering::Relaxed) {
            let work = mailbox.take();
            for (node, bytes) in work.typed {
                self.type_in(&mailbox, node, bytes)?;
            }
            if work.checkpoint {
                let number = self.keep();
                mailbox.take_checkpoint(number);
            }
            if work.queues {
                mailbox.publish_queues(self.queues());
            }
            if work.look {
                self.flush_consoles()?;
                mailbox.publish(Look {
                    paused: work.paused,
                    rounds: self.rounds,
                    ..self
                        .viewer
                        .look(self.now, self.bounds.nodes(), &self.workers, &self.fabric)
                });
            }
            if !mailbox.hold(self.now) {
                break;
            }
        }
        Ok(())
    }

    /// Types `bytes` into a console at a time that no node has passed: nodes have run ahead of this one
    /// within their bounds, which did not include the input.
    fn type_in(&mut self, mailbox: &Mailbox, node: u32, bytes: Vec<u8>) -> Result<(), RunError> {
        if self.others.is_some() {
            // Hosts would have to agree on such a time.
            tracing::warn!(
                "consoles of a run on several hosts take no input; node {node} gets none"
            );
            return Ok(());
        }
        let clocks = self
            .workers
            .runners()
            .map(|runner| runner.node().now())
            .max();
        let at = clocks.map_or(self.now, |latest| latest.max(self.now));
        self.input += mailbox.log(at, node, &bytes).map_err(RunError::Input)?;
        self.workers.type_in(node, at, bytes);
        self.bounds.set(node, self.workers.next(node));
        self.typed += 1;
        Ok(())
    }

    fn flush_consoles(&mut self) -> Result<(), RunError> {
        if let Some(others) = &mut self.others {
            others.flush()?;
        }
        for mut runner in self.workers.runners() {
            runner.flush().map_err(|source| RunError::Console {
                node: runner.index,
                source,
            })?;
        }
        Ok(())
    }
}
