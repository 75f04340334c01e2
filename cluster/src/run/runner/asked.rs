//! A node that is asked for its files once the run has ended.
//!
//! It runs by itself for that: nothing reaches it, and what it sends, calls or writes elsewhere is
//! nobody's any more. Called by the coordinator, after all that was recorded is taken.

use belljar_sim::Span;
use belljar_vmm::{NodeError, NodeStop};

use super::Runner;
use crate::results::outputs::{Answer, AnswerError, Wanted};
use crate::results::stream::Stream;

/// Virtual time between two looks at what it said.
const STEP: Span = Span::from_ms(1);
/// Virtual time in which it must say something.
const PATIENCE: Span = Span::from_ms(5_000);

impl Runner {
    /// Asks the node for `wanted` and hands what it answers to `pass`, which says whether to continue.
    /// Why not all of it came, if it did not.
    ///
    /// # Errors
    /// When the host fails the node.
    pub(crate) fn ask(
        &mut self,
        wanted: &Wanted,
        mut pass: impl FnMut(Vec<u8>) -> bool,
    ) -> Result<Option<String>, NodeError> {
        if self.ready.is_none() {
            return Ok(Some("it was not up yet".to_owned()));
        }
        self.watch = None;
        self.node.pause_at(u64::MAX);
        self.node.take_control();
        let mut heard = self.node.now();
        self.node.write_control(heard, wanted.request());
        let mut answer = Answer::default();
        loop {
            let stop = self.step()?;
            let bytes = self.node.take_control();
            let now = self.node.now();
            if !bytes.is_empty() {
                heard = now;
                let read = answer.take::<AnswerError>(&bytes, |_| Ok(()));
                if !pass(bytes) || read.is_err() || answer.is_done() {
                    // Whoever it is passed to says what is wrong with it.
                    return Ok(None);
                }
            }
            match stop {
                NodeStop::Limit => {}
                NodeStop::PoweredOff => return Ok(Some("it has switched itself off".to_owned())),
                _ => return Ok(Some("it does not run any more".to_owned())),
            }
            if now.since(heard) > PATIENCE {
                return Ok(Some(format!(
                    "it does not answer within {PATIENCE} of virtual time"
                )));
            }
        }
    }

    /// Runs the node for a while; how that ended.
    fn step(&mut self) -> Result<NodeStop, NodeError> {
        let end = self.node.now() + STEP;
        let stop = loop {
            match self.node.run_until(end)? {
                NodeStop::Magic { at, vcpu } => self.magic(at, vcpu),
                NodeStop::Probe { probe, vcpu } => self.probe(probe, vcpu),
                NodeStop::Return { at, .. } => self.returned(at),
                NodeStop::Paused => {}
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
