//! One node of a run, with its tracer and its console file.
//!
//! One thread at a time has a runner. Messages of guests on the control channel are untrusted: only known
//! lines count, and they have a limit. Executed by the workers in turns, and examined by the coordinator
//! between them.

use std::collections::VecDeque;
use std::io;

use belljar_sim::{Span, Time};
use belljar_trace::{Event, NodeSummary, ProbeRecord};
use belljar_tracer::NodeTracer;
use belljar_vmm::{Node, NodeError, NodeStop};

use crate::observe::watch::{NodeSample, Watch};
use crate::results::stream::Stream;
use crate::run::stopwatch::Stopwatch;

/// Requests for a node's files after the end of the run.
mod asked;
/// Stops of a node for a debugger.
mod breaks;
/// Passes a node's MPI calls to its tracer.
mod calls;
/// The destination of one output of a node.
mod console;
/// All outputs of one node, each with its file in the run directory.
mod logs;
/// Samples of a node's processors.
mod profile;
/// Starts of a node after losses of power.
mod restart;
/// A node's state and the related state of the host, saved and restored.
mod saved;

pub(crate) use breaks::{Arrival, Breaks};
pub use breaks::{BreakFilter, WatchedAccess};
pub use console::ConsoleLog;
pub(crate) use console::write_lines;
pub(crate) use logs::{Lengths, Logs, named};
pub(crate) use restart::{Restart, Restarts};
pub use saved::KeepError;
pub(crate) use saved::RunnerState;

/// Lines of a console that an error message shows.
const TAIL_LINES: usize = 12;
/// Shorter turns are not each measured.
const SHORT: Span = Span::from_us(20);
/// Longest kept line of the console.
const TAIL_WIDTH: usize = 200;
/// Longest line on the control channel.
const CONTROL_LINE: usize = 256;

/// A message of a node on its control channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Its init has finished.
    Ready,
    /// The workload ended with this code.
    Exit(i32),
}

/// A node while it runs.
pub struct Runner {
    /// Its number.
    pub index: u32,
    node: Node,
    tracer: Option<NodeTracer>,
    pub(crate) logs: Logs,
    tail: VecDeque<String>,
    line: String,
    control: Vec<u8>,
    watch: Option<Watch>,
    profiler: Option<profile::Profiler>,
    /// The reason of its end, if it has ended.
    pub ended: Option<NodeStop>,
    /// Time at which its init finished.
    pub ready: Option<Time>,
    /// Frames sent so far.
    pub sent: u64,
    /// Packets of the InfiniBand network sent so far.
    pub sent_packets: u64,
    /// The first process that its kernel killed for lack of memory, in the kernel's words.
    pub out_of_memory: Option<String>,
    /// The first allocation that its kernel refused, in the kernel's words.
    pub refused_memory: Option<String>,
    /// The words of its kernel's panic.
    pub panicked: Option<String>,
    /// Kills of its ranks by the scenario: times, and the rank, or all.
    pub(crate) kills: Vec<(Time, Option<u32>)>,
    busy: Stopwatch,
    /// Latest end of its last turn.
    limit: Time,
    pub(crate) breaks: Breaks,
    restarts: Restarts,
    /// Instructions that it had retired before its start here.
    before: u64,
    /// Instructions that it retired here before its init had finished, and their host time.
    booting: (u64, std::time::Duration),
}

impl Runner {
    /// A node before its start; without `tracer`, its MPI calls are not observed.
    pub(crate) fn new(index: u32, node: Node, tracer: Option<NodeTracer>, logs: Logs) -> Self {
        Self {
            before: node.retired(),
            booting: Default::default(),
            index,
            node,
            tracer,
            logs,
            tail: VecDeque::new(),
            line: String::new(),
            control: Vec::new(),
            watch: None,
            profiler: None,
            ended: None,
            ready: None,
            sent: 0,
            sent_packets: 0,
            out_of_memory: None,
            refused_memory: None,
            panicked: None,
            kills: Vec::new(),
            busy: Stopwatch::default(),
            limit: Time::ZERO,
            breaks: Breaks::default(),
            restarts: Restarts::default(),
        }
    }

    /// Lets these nodes take its node's place, in order of their times.
    pub(crate) fn will_restart(&mut self, ahead: Vec<Restart>) {
        self.restarts = Restarts::new(ahead, self.restarts.done);
    }

    /// The node itself.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The node itself, for exchanging frames.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// Samples the node's state by `watch`, from now on.
    pub fn watch(&mut self, watch: Watch) {
        self.node.pause_at(watch.next().unwrap_or(u64::MAX));
        self.watch = Some(watch);
    }

    /// The kept samples of the node's states.
    pub fn take_samples(&mut self) -> Vec<NodeSample> {
        match &mut self.watch {
            Some(Watch::Probe(probe)) => std::mem::take(&mut probe.samples),
            _ => Vec::new(),
        }
    }

    /// Samples the paused node, and sets the next pause.
    fn look(&mut self) {
        let Some(watch) = &mut self.watch else {
            self.node.pause_at(u64::MAX);
            return;
        };
        watch.look(&self.node);
        match watch.next() {
            Some(next) => self.node.pause_at(next),
            // All requested samples are taken.
            None => self.ended = Some(NodeStop::Paused),
        }
    }

    /// Its tracer.
    pub fn tracer(&self) -> Option<&NodeTracer> {
        self.tracer.as_ref()
    }

    /// This node's summary for the trace's end.
    pub fn trace_summary(&self) -> Option<NodeSummary> {
        self.tracer
            .as_ref()
            .map(|tracer| tracer.summary(self.node.now_cycles()))
    }

    /// Runs the node as [`Node::run_ahead`] does. Returns true if the node may have had an effect: a
    /// frame, a call, output on a console, or its end.
    ///
    /// # Errors
    /// If the host fails for the node.
    pub fn run_ahead(&mut self, limit: Time, echo: Span) -> Result<bool, NodeError> {
        let limit = self.until_restart(limit);
        let is_short = limit.since(self.limit) < SHORT;
        self.limit = limit;
        let lap = match is_short {
            true => self.busy.short_lap(),
            false => Some(self.busy.lap()),
        };
        let result = self.run_on(limit, echo);
        if let Some(lap) = lap {
            self.busy.add(lap);
        }
        result
    }

    /// Instructions that it retired here, not before a clone's or a resumed run's start.
    pub fn executed(&self) -> u64 {
        self.node.retired() - self.before
    }

    /// Instructions that it retired here after its init had finished, and their host time.
    pub fn worked(&self) -> (u64, std::time::Duration) {
        let (instructions, time) = self.booting;
        let time = self.host_time().saturating_sub(time);
        (self.executed() - instructions, time)
    }

    /// Host time of the node so far.
    pub fn host_time(&self) -> std::time::Duration {
        self.busy.total()
    }

    /// True if the node does nothing by itself for this span.
    pub fn sleeps_for(&self, span: Span) -> bool {
        let now = self.node.now();
        let next = self.node.next_event();
        next.is_none_or(|next| next.since(now) >= span)
    }

    /// Brings the node exactly to `end`, unless it has ended.
    ///
    /// # Errors
    /// If the host fails for the node.
    pub fn run_to(&mut self, end: Time) -> Result<(), NodeError> {
        if self.ended.is_none() {
            loop {
                match self.node.run_until(end)? {
                    NodeStop::Sample {
                        number,
                        count,
                        vcpu,
                    } => self.sample(number, count, vcpu),
                    NodeStop::Watchpoint { .. } => {}
                    NodeStop::Buffer { at, vcpu } => self.buffer_accessed(at, vcpu),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    fn run_on(&mut self, limit: Time, echo: Span) -> Result<bool, NodeError> {
        if self.breaks.is_halted() {
            return Ok(true);
        }
        if self.node.run_undisturbed(limit)? {
            return Ok(false);
        }
        while self.ended.is_none() && !self.breaks.is_halted() {
            match self.node.run_ahead(limit, echo)? {
                NodeStop::Limit => break,
                NodeStop::Magic { at, vcpu } => self.magic(at, vcpu),
                NodeStop::Probe { probe, vcpu } => self.probe(probe, vcpu),
                NodeStop::Return { at, .. } => {
                    self.arrive();
                    self.returned(at);
                }
                NodeStop::Watchpoint {
                    number,
                    write,
                    device,
                    ..
                } => self.meet_watchpoint(number, write, device),
                NodeStop::Buffer { at, vcpu } => self.buffer_accessed(at, vcpu),
                NodeStop::Paused if self.passes_device_write() || self.halts_here() => {}
                NodeStop::Paused => self.look(),
                NodeStop::Sample {
                    number,
                    count,
                    vcpu,
                } => self.sample(number, count, vcpu),
                ended => self.ended = Some(ended),
            }
        }
        Ok(true)
    }

    /// Moves the node's outputs into their files, and returns its messages on the control channel.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn collect_output(&mut self) -> io::Result<Vec<Word>> {
        if let Some(log) = self.take_boot_log() {
            self.log(&log)?;
        }
        let bytes = self.node.take_console();
        self.log(&bytes)?;
        for stream in Stream::ALL {
            if let Some(device) = stream.device() {
                let bytes = self.node.take_stream(device);
                self.logs.write(stream, &bytes)?;
            }
        }
        if let Some(Watch::Log(log)) = &mut self.watch {
            log.save()?;
        }
        if let Some(profiler) = &mut self.profiler {
            let bytes = profiler.writer.take();
            self.logs.write(Stream::Profile, &bytes)?;
        }
        let bytes = self.node.take_control();
        Ok(self.listen(&bytes))
    }

    /// Writes `bytes` to the console's file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn log(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.logs.write(Stream::Console, bytes)?;
        self.remember(bytes);
        Ok(())
    }

    fn remember(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                let told: [(&str, &mut Option<String>); 3] = [
                    ("Out of memory: Killed process", &mut self.out_of_memory),
                    (
                        "no enough memory for the allocation",
                        &mut self.refused_memory,
                    ),
                    ("Kernel panic - ", &mut self.panicked),
                ];
                for (words, first) in told {
                    if first.is_none() && line.contains(words) {
                        *first = Some(line.clone());
                    }
                }
                self.tail.push_back(line);
                if self.tail.len() > TAIL_LINES {
                    self.tail.pop_front();
                }
            } else if self.line.len() < TAIL_WIDTH && (byte.is_ascii_graphic() || byte == b' ') {
                self.line.push(char::from(byte));
            }
        }
    }

    fn listen(&mut self, bytes: &[u8]) -> Vec<Word> {
        let mut words = Vec::new();
        for &byte in bytes {
            if byte != b'\n' {
                if self.control.len() < CONTROL_LINE {
                    self.control.push(byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.control);
            let line = String::from_utf8_lossy(&line);
            match line.trim().split_once(' ') {
                // A node that has started again is ready once more.
                None if line.trim() == "ready" && self.ready.is_none() => {
                    self.ready = Some(self.node.now());
                    self.booting = (self.executed(), self.host_time());
                    words.push(Word::Ready);
                }
                Some(("exit", code)) => words.extend(code.parse().ok().map(Word::Exit)),
                _ => {}
            }
        }
        words
    }

    /// Calls completed since the last call of this function.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.tracer
            .as_mut()
            .map_or_else(Vec::new, NodeTracer::take_events)
    }

    /// Records of the user's probes since the last call of this function.
    pub fn take_probe_records(&mut self) -> Vec<ProbeRecord> {
        let tracer = self.tracer.as_mut();
        tracer.map_or_else(Vec::new, NodeTracer::take_probe_records)
    }

    /// The node's outputs, if another host keeps them.
    pub fn take_relayed(&mut self) -> Vec<(Stream, Vec<u8>)> {
        self.logs.take()
    }

    /// Flushes the node's outputs.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.logs.flush()
    }

    /// Flushes the node's outputs, and writes the last state and the end of its profile.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(Watch::Log(log)) = &mut self.watch {
            log.end(&self.node)?;
        }
        if let Some(bytes) = self.end_profile() {
            self.logs.write(Stream::Profile, &bytes)?;
        }
        self.logs.flush()
    }
}
