//! Requests for a node's files after the end of the run.
//!
//! The node then runs alone: no frame reaches it, and its frames, calls and other outputs are
//! discarded. Called by the coordinator, after all records are collected.

use belljar_sim::Span;
use belljar_vmm::{NodeError, NodeStop};

use super::Runner;
use crate::results::outputs::{Answer, AnswerError, RequestedFiles};
use crate::results::stream::Stream;

/// Virtual time between checks of its answer.
const STEP: Span = Span::from_ms(1);
/// Virtual time limit for any part of the answer.
const PATIENCE: Span = Span::from_ms(5_000);

impl Runner {
    /// Requests `wanted` from the node and passes its answer to `pass`, which returns whether to
    /// continue. Returns the reason if the answer is incomplete.
    ///
    /// # Errors
    /// If the host fails for the node.
    pub(crate) fn ask(
        &mut self,
        wanted: &RequestedFiles,
        mut pass: impl FnMut(Vec<u8>) -> bool,
    ) -> Result<Option<String>, NodeError> {
        if self.ready.is_none() {
            return Ok(Some("it had not booted yet".to_owned()));
        }
        self.watch = None;
        self.node.pause_at(u64::MAX);
        self.node.take_control();
        let mut heard = self.node.now();
        self.node.write_control(heard, wanted.request(self.index));
        let mut answer = Answer::default();
        loop {
            let stop = self.step()?;
            let bytes = self.node.take_control();
            let now = self.node.now();
            if !bytes.is_empty() {
                heard = now;
                let read = answer.take::<AnswerError>(&bytes, |_| Ok(()));
                if !pass(bytes) || read.is_err() || answer.is_done() {
                    // The receiver of the answer reports its faults.
                    return Ok(None);
                }
            }
            match stop {
                NodeStop::Limit => {}
                NodeStop::PoweredOff => return Ok(Some("it has switched itself off".to_owned())),
                _ => return Ok(Some("it no longer runs".to_owned())),
            }
            if now.since(heard) > PATIENCE {
                return Ok(Some(format!(
                    "it does not answer within {PATIENCE} of virtual time"
                )));
            }
        }
    }

    /// Runs the node for a while; returns the reason for its stop.
    fn step(&mut self) -> Result<NodeStop, NodeError> {
        let end = self.node.now() + STEP;
        let stop = loop {
            match self.node.run_until(end)? {
                NodeStop::Magic { at, vcpu } => self.magic(at, vcpu),
                NodeStop::Probe { probe, vcpu } => self.probe(probe, vcpu),
                NodeStop::Return { at, .. } => self.returned(at),
                NodeStop::Paused | NodeStop::Watchpoint { .. } | NodeStop::Buffer { .. } => {}
                stop => break stop,
            }
        };
        self.node.take_frames();
        self.node.take_console();
        for device in Stream::ALL.into_iter().filter_map(Stream::device) {
            self.node.take_stream(device);
        }
        self.take_events();
        Ok(stop)
    }
}
