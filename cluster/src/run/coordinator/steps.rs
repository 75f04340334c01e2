//! Turns of a run for a debugger: to a time that all nodes reach and none passes, to the first arrivals at
//! breakpoints, and a single node's part behind that time.
//!
//! Rounds are those of any run, so that the nodes' states are the same. Called by the timeline.

use std::sync::atomic::{AtomicBool, Ordering};

use belljar_sim::Time;
use belljar_trace::Event;

use super::Run;
use crate::results::stream::Stream;
use crate::run::ending::Ending;
use crate::run::error::RunError;

/// A part of a node's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPiece {
    /// The node.
    pub node: u32,
    /// The output.
    pub stream: Stream,
    /// Bytes of the output before this part.
    pub start: u64,
    /// The part.
    pub bytes: Vec<u8>,
}

/// The result of [`Run::advance`].
#[derive(Debug)]
pub(crate) enum Advance {
    /// All nodes have reached the time, or all have reached the earliest arrival before it.
    Reached,
    /// The run ended before it.
    Ended(Ending),
    /// The debugger asked for a stop.
    Interrupted,
}

impl Run {
    /// The first time from `time` on that all nodes can reach without passing it.
    pub(crate) fn reachable(&self, time: Time) -> Time {
        self.closing.reachable(time)
    }

    /// Runs until all nodes have reached `until`, which must be [reachable](Self::reachable). If a node halts
    /// before, until no other node can halt earlier.
    pub(crate) fn advance(&mut self, until: Time, stop: &AtomicBool) -> Result<Advance, RunError> {
        loop {
            let halted = self.workers.runners().filter_map(|it| it.halted_at());
            let first = halted.min().unwrap_or(Time::MAX);
            self.hold = self.closing.reachable(until.min(first));
            if self.bounds.settled(self.in_transit()) >= until.min(first) {
                return Ok(Advance::Reached);
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Advance::Interrupted);
            }
            if let Some(ending) = self.round(stop)? {
                return Ok(Advance::Ended(ending));
            }
            self.discard();
        }
    }

    /// Runs node `node` alone, after all nodes have reached one time, until it has retired `instructions`.
    /// Returns false if the run ends before, or if the node needs other nodes to get there.
    pub(crate) fn advance_one(&mut self, node: u32, instructions: u64) -> Result<bool, RunError> {
        for mut runner in self.workers.runners() {
            if runner.index == node {
                runner.halt_at(instructions);
            } else {
                runner.halt();
            }
        }
        self.hold = Time::MAX;
        let never = AtomicBool::new(false);
        loop {
            let before = {
                let runner = self.workers.runner(node);
                if runner.node().retired() >= instructions {
                    return Ok(runner.node().retired() == instructions);
                }
                (runner.node().retired(), runner.node().now())
            };
            if self.round(&never)?.is_some() {
                return Ok(false);
            }
            self.discard();
            let runner = self.workers.runner(node);
            if (runner.node().retired(), runner.node().now()) == before {
                return Ok(false);
            }
        }
    }

    /// The time that all nodes have reached.
    pub(crate) fn reached(&self) -> Time {
        let clocks = self.workers.runners().map(|it| it.node().now());
        clocks.min().unwrap_or(self.now)
    }

    /// The time that no node has passed.
    pub(crate) fn latest(&self) -> Time {
        let clocks = self.workers.runners().map(|it| it.node().now());
        clocks.max().unwrap_or(self.now)
    }

    /// Drops records that only the files of a run need. Calls stay for [`Run::take_calls`], consoles for
    /// [`Run::take_output`].
    fn discard(&mut self) {
        for mut runner in self.workers.runners() {
            runner.take_probe_records();
        }
    }

    /// Calls that returned since the last call of this function.
    pub(crate) fn take_calls(&mut self) -> Vec<Event> {
        let mut calls = Vec::new();
        for mut runner in self.workers.runners() {
            calls.extend(runner.take_events());
        }
        calls
    }

    /// The nodes' outputs since the last call.
    pub(crate) fn take_output(&mut self) -> Vec<OutputPiece> {
        let mut output = Vec::new();
        for mut runner in self.workers.runners() {
            let node = runner.index;
            for (stream, bytes) in runner.take_relayed() {
                let end = runner.logs.lengths()[stream.number()];
                let start = end.saturating_sub(bytes.len() as u64);
                output.push(OutputPiece {
                    node,
                    stream,
                    start,
                    bytes,
                });
            }
        }
        output
    }
}
