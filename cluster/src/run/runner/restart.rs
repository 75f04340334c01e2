//! Starts of a node after losses of power.
//!
//! The nodes that take the place are clones of the boot's snapshot, made before the run. A loss of power is an absence for good of the old
//! node, so only the change of nodes is done here, in the first turn that passes its time. Called by the runner's loop.

use std::collections::VecDeque;
use std::sync::Arc;

use belljar_cpu::EngineReport;
use belljar_sim::Time;
use belljar_vmm::Node;

use super::Runner;

/// A node that takes the place of a runner's node at a time.
pub(crate) struct Restart {
    /// The time.
    pub(crate) at: Time,
    /// The node. It is away until then.
    pub(crate) node: Node,
    /// Its console's output before its snapshot.
    pub(crate) boot_log: Arc<[u8]>,
}

/// Starts of a node so far, and those ahead.
#[derive(Default)]
pub(crate) struct Restarts {
    /// In order.
    ahead: VecDeque<Restart>,
    /// Number of starts so far.
    pub(super) done: u32,
    /// Output of the boot that is not yet in the console's file.
    boot_log: Option<Arc<[u8]>>,
    /// Reports of the engines of nodes that are gone.
    report: EngineReport,
    /// True if the node's memory is another one since the last checkpoint.
    is_new: bool,
}

impl Restarts {
    /// With these starts `ahead`, after a number of others.
    pub(super) fn new(ahead: Vec<Restart>, done: u32) -> Self {
        Self {
            ahead: ahead.into(),
            done,
            ..Self::default()
        }
    }
}

impl Runner {
    /// The time of the node's next action; `None` if only a delivery can wake it, or if it has ended.
    pub(crate) fn next_event(&self) -> Option<Time> {
        if self.ended.is_some() {
            return None;
        }
        let start = self.restarts.ahead.front().map(|restart| restart.at);
        self.node.next_event().into_iter().chain(start).min()
    }

    /// Ends a turn up to `limit` at the node's next start, or begins it with that start.
    pub(super) fn until_restart(&mut self, limit: Time) -> Time {
        while let Some(restart) = self.restarts.ahead.front() {
            let at = restart.at;
            let is_due = self.node.next_event().is_none_or(|next| next >= at);
            if limit <= at || !is_due {
                return limit.min(at);
            }
            self.restart();
        }
        limit
    }

    /// Replaces the node by the next one.
    fn restart(&mut self) {
        let Some(Restart { at, node, boot_log }) = self.restarts.ahead.pop_front() else {
            return;
        };
        let mut old = std::mem::replace(&mut self.node, node);
        self.restarts.report.add(old.engine_report());
        self.node.succeed(&mut old, at);
        drop(old);
        self.restarts.done += 1;
        self.restarts.is_new = true;
        self.restarts.boot_log = Some(boot_log);
        self.control.clear();
        if let Some(tracer) = &mut self.tracer {
            tracer.lose_processes(self.node.frequency().cycle_at(at));
            tracer.renew_buffers();
        }
        self.forget_mappings();
        self.watch_buffers();
        self.set_stops();
    }

    /// Output of the node's latest boot that is not yet in the console's file.
    pub(super) fn take_boot_log(&mut self) -> Option<Arc<[u8]>> {
        self.restarts.boot_log.take()
    }

    /// True once after each start: the node's memory is then that of another node.
    pub(crate) fn take_is_new(&mut self) -> bool {
        std::mem::take(&mut self.restarts.is_new)
    }

    /// The reports of the engines of all nodes that were in this place.
    pub(crate) fn engine_report(&self) -> EngineReport {
        let mut report = self.restarts.report.clone();
        report.add(self.node.engine_report());
        report
    }
}
