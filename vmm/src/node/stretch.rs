//! A short way through turns in which a node does nothing but run.
//!
//! Where nodes hear of each other within a microsecond, a turn is a few thousand instructions,
//! and to find out that nothing else is due would take as long as they do. So a turn that came to
//! its limit by running alone notes up to when nothing will come of itself; whatever
//! changes that from outside, or stops the processor before, ends it.

use belljar_cpu::{Cycles, Exit};
use belljar_sim::Time;

use super::{Node, NodeError};

impl Node {
    /// Runs until about `limit`, as [`run_ahead`](Self::run_ahead) does, if all that there is to
    /// do up to there is to run. When it was all, which this tells, nothing came out of the node:
    /// no frame, no call, nothing on a console. Otherwise `run_ahead` is to continue.
    ///
    /// # Errors
    /// As [`run_until`](Self::run_until).
    pub fn run_undisturbed(&mut self, limit: Time) -> Result<bool, NodeError> {
        if !self.is_undisturbed() {
            return Ok(false);
        }
        let limit = self.frequency.cycle_at(limit);
        if limit > self.undisturbed {
            return Ok(false);
        }
        let exit = self.current_mut().vcpu.run_about(limit);
        // Not moved before it is looked at: that takes longer than all else here.
        if let Ok(Exit::Deadline) = exit {
            self.counts.deadlines += 1;
            return Ok(true);
        }
        self.disturb();
        self.carry_out(&exit?)?;
        Ok(false)
    }

    /// Whether the node is about to do nothing but run.
    pub fn is_undisturbed(&self) -> bool {
        self.undisturbed > 0
    }

    /// Something else may be due from now on.
    pub(super) fn disturb(&mut self) {
        if self.is_undisturbed() {
            self.note_ran();
        }
        self.undisturbed = 0;
    }

    /// Notes until when nothing but running is due, after a turn that did nothing else.
    pub(super) fn foresee(&mut self) {
        let is_heard = self.devices.first_frame().is_some() || self.devices.has_output();
        if self.pause == Cycles::MAX && !is_heard {
            let next = self.next_of_current().into_iter();
            let next = next.chain(self.sample_of_current());
            let next = next.chain(self.next_detour()).min();
            self.undisturbed = next.unwrap_or(Cycles::MAX);
        }
    }
}
