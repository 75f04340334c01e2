//! Movements of a timeline to given positions.
//!
//! Each begins at the present state, if that is before the position and no instant is closer. Called by the
//! debugger and by searches for arrivals.

use std::sync::atomic::AtomicBool;

use belljar_sim::{Span, Time};

use super::arrivals::Counted;
use super::{Moved, Position, Timeline, position};
use crate::run::coordinator::{Advance, Run};
use crate::run::error::RunError;
use crate::run::stopwatch::Stopwatch;

impl Timeline {
    /// Moves to a time that all nodes reach without passing it: `time`, or the last such time before it.
    ///
    /// # Errors
    /// If the host fails the run.
    pub fn goto_time(&mut self, time: Time) -> Result<Moved, RunError> {
        let time = self.floor(time.max(self.start()));
        self.come_to(time)?;
        if let Some((end, ending)) = &self.end
            && *end <= time
        {
            return Ok(Moved::Ended(ending.clone()));
        }
        Ok(Moved::Reached)
    }

    /// Moves to the state in which `node` has retired `instructions`, which is before the present one.
    ///
    /// # Errors
    /// As for [`goto`](Self::goto).
    pub fn back_to(&mut self, node: u32, instructions: u64) -> Result<(), RunError> {
        self.before(self.at.time, node, instructions)
    }

    /// Moves to the state in which `node` has retired `instructions`, which is before time `now`.
    pub(super) fn before(
        &mut self,
        now: Time,
        node: u32,
        instructions: u64,
    ) -> Result<(), RunError> {
        let start = self.start();
        let mut back = Span::from_ns(100);
        loop {
            let time = Time::from_ps(now.as_ps().saturating_sub(back.as_ps())).max(start);
            self.come_to(self.floor(time).max(start))?;
            if self.runner(node).node().retired() <= instructions {
                break;
            }
            if time == start {
                return Err(RunError::NoPosition { node, instructions });
            }
            back = Span::from_ps(back.as_ps().saturating_mul(16));
        }
        self.confined(|run| run.advance_one(node, instructions))?;
        let time = self.runner(node).node().now();
        self.goto(Position {
            time,
            node,
            instructions,
        })
    }

    /// Moves forwards until `node` has retired `instructions`, while the others stand still.
    ///
    /// # Errors
    /// As for [`goto`](Self::goto).
    pub fn step_to(&mut self, node: u32, instructions: u64) -> Result<(), RunError> {
        self.runner(node).release(u64::MAX, false);
        if !self.confined(|run| run.advance_one(node, instructions))? {
            return Err(RunError::NoPosition { node, instructions });
        }
        let time = self.runner(node).node().now();
        self.at = Position {
            time,
            node,
            instructions,
        };
        // The others are behind it now, or ahead.
        self.settled = self.origin.plan.nodes == 1;
        Ok(())
    }

    /// Moves to `position`.
    ///
    /// # Errors
    /// If the host fails the run, or [`RunError::NoPosition`] if the run has no such position.
    pub fn goto(&mut self, position: Position) -> Result<(), RunError> {
        self.come_to(self.floor(position.time))?;
        let Position {
            node, instructions, ..
        } = position;
        if !self.confined(|run| run.advance_one(node, instructions))? {
            return Err(RunError::NoPosition { node, instructions });
        }
        let time = self.runner(node).node().now();
        self.at = Position { time, ..position };
        self.settled = true;
        Ok(())
    }

    /// The last time up to `time` that all nodes can reach without passing it.
    pub(super) fn floor(&self, time: Time) -> Time {
        let plan = &self.origin.plan;
        match plan.has_slices() {
            true => Time::from_ps(time.as_ps() / plan.slice.as_ps() * plan.slice.as_ps()),
            false => time,
        }
    }

    /// Brings all nodes to `time`, from the present state if that is before it and no instant is closer.
    pub(super) fn come_to(&mut self, time: Time) -> Result<(), RunError> {
        let closest = self.instants.range(..=time).next_back();
        let closest = closest.map_or_else(|| self.start(), |(time, _)| *time);
        let passed = |run: &Run| run.latest() > time;
        let is_before = self.run.as_ref().is_some_and(|run| !passed(run));
        if !is_before || closest > self.at.time {
            self.restore(closest)?;
        }
        self.release(Counted::None, false)?;
        let never = AtomicBool::new(false);
        loop {
            let mut watch = Stopwatch::default();
            let since = watch.lap();
            let now = self.at.time;
            let goal = self.run()?.reachable((now + self.span).min(time)).min(time);
            let advanced = self.confined(|run| run.advance(goal, &never))?;
            let is_over = matches!(advanced, Advance::Ended(_));
            let reached = if is_over { self.run()?.now() } else { goal };
            self.hear();
            self.at = position(self.run()?, reached, 0);
            self.settled = true;
            if let Advance::Ended(ending) = advanced {
                self.end = Some((reached, ending));
                return Ok(());
            }
            if goal >= time {
                return Ok(());
            }
            watch.add(since);
            self.remember(now, watch.total())?;
        }
    }

    /// Brings nodes that are ahead of the position back to it.
    ///
    /// # Errors
    /// If the host fails the run.
    pub fn settle(&mut self) -> Result<(), RunError> {
        match self.settled {
            true => Ok(()),
            false => self.goto(self.at),
        }
    }
}
