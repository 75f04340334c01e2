//! Points between the calls of threads, and whether calls of others happened before them.
//!
//! Used by checks of accesses that are no calls.

use std::collections::BTreeMap;

use belljar_job::ProcessKey;
use belljar_trace::Event;

use super::RunOrder;
use super::replay::{Clock, Replay};

/// A point of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check) struct ThreadPoint {
    pub(in crate::check) thread: u32,
    /// The number of the thread's calls in the order that returned before.
    pub(in crate::check) calls: u32,
    /// The exit of the call at this point, or the time, in cycles.
    pub(in crate::check) exit: u64,
}

/// The clocks of points.
#[derive(Debug)]
pub(in crate::check) struct OrderClocks(BTreeMap<(u32, u32), Clock>);

impl OrderClocks {
    /// The number of calls of `thread` that have begun before a point.
    pub(in crate::check) fn of(&self, point: ThreadPoint, thread: u32) -> u32 {
        let clock = self.0.get(&(point.thread, point.calls));
        clock.map_or(0, |clock| clock.of(thread))
    }
}

impl RunOrder {
    /// The point of a call that is not in the order yet: after all earlier calls of its thread.
    pub(in crate::check) fn point(&mut self, call: &Event) -> ThreadPoint {
        let thread = self.thread(((call.node, call.process), call.thread));
        ThreadPoint {
            thread,
            calls: self.steps[thread as usize].len() as u32,
            exit: call.exit.unwrap_or(u64::MAX),
        }
    }

    /// The point of a thread at a time between its calls; `None` if the thread has no calls.
    pub(in crate::check) fn point_at(
        &self,
        process: ProcessKey,
        thread: u32,
        at: u64,
    ) -> Option<ThreadPoint> {
        let thread = *self.threads.get(&(process, thread))?;
        let steps = &self.steps[thread as usize];
        let is_before = |step: &super::Step| step.exit.is_some_and(|exit| exit <= at);
        let calls = steps.partition_point(is_before);
        Some(ThreadPoint {
            thread,
            calls: calls as u32,
            exit: at,
        })
    }

    /// The clocks of points in the order of the run; `None` if the order is unknown.
    pub(in crate::check) fn clocks(
        &self,
        points: impl Iterator<Item = ThreadPoint>,
    ) -> Option<OrderClocks> {
        if self.is_crowded {
            return None;
        }
        let wanted = points.map(|point| (point.thread, point.calls));
        let mut replay = Replay::with_points(self, wanted.collect());
        replay.run();
        replay
            .has_clocks()
            .then(|| OrderClocks(replay.into_points()))
    }
}
