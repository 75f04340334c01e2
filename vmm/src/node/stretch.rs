//! A fast path for turns in which a node only executes instructions.
//!
//! If nodes exchange messages within a microsecond, a turn is a few thousand instructions, and
//! checking for due events would take as long as executing them. So a turn that reached its limit
//! by execution alone records the time of the next due event. Any change from outside, and any
//! earlier stop of the processor, ends the fast path.

use belljar_cpu::{Cycles, Exit};
use belljar_sim::Time;

use super::{Node, NodeError};

impl Node {
    /// Runs until about `limit`, as [`run_ahead`](Self::run_ahead) does, if only execution is due
    /// up to there. Returns true if only that happened: then the node sent no frame, made no call
    /// and wrote nothing to a console. Otherwise call `run_ahead` to continue.
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
        // Matched by reference: moving the exit would take longer than the rest of the function.
        if let Ok(Exit::Deadline) = exit {
            self.counts.deadlines += 1;
            return Ok(true);
        }
        self.disturb();
        self.carry_out(&exit?)?;
        Ok(false)
    }

    /// True if only execution is due next.
    pub fn is_undisturbed(&self) -> bool {
        self.undisturbed > 0
    }

    /// Ends the fast path: another event may be due.
    pub(super) fn disturb(&mut self) {
        if self.is_undisturbed() {
            self.note_ran();
        }
        self.undisturbed = 0;
    }

    /// Records the time up to which only execution is due, after a turn that only executed.
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
