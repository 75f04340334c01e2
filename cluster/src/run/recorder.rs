//! The calls of all nodes, in the order of virtual time, in one trace.
//!
//! Calls wait here until no earlier one can come, so their order does not depend on hosts, threads or rounds. In that order polls
//! without success are folded, unless each is requested, and iterations of the main loop are dropped on request. If another host
//! writes the trace, calls are only collected for it. The writer has its own thread. Called by the coordinator after each round
//! and at the end.

/// Filters between the calls and the writer.
mod passage;
/// Records of the user's probes.
mod probes;

use std::fs::File;
use std::path::PathBuf;

use belljar_archive::{Contents, QueuedWriter, TraceWriter};
use belljar_sim::{Frequency, Span, Time};
use belljar_trace::{
    Event, NodeSummary, ProbeRecord, StateError, TraceError, TraceHeader, TraceSummary,
    load_events, save_events,
};
use belljar_tracer::{NodeTracer, Selection, Window};
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::results::run_directory::RunDirectory;
use crate::run::checkpoint::CheckpointError;
use crate::run::ending::Ending;
use crate::run::error::RunError;
use crate::run::runner::Runner;
use crate::run::summary::modelled_processors;
use passage::{Passage, PassageState};
use probes::{ProbeRecorder, ProbeRecorderState, ProbesLeft};

/// Number of waiting calls before they are sorted: large enough to sort rarely.
const BATCH: usize = 1024;

/// The nodes' clocks, as cycles of two nodes can be compared as times only.
pub(super) struct Clocks(Vec<Frequency>);

impl Clocks {
    fn of(plan: &Plan) -> Self {
        Self(plan.clocks())
    }

    /// The time at which cycle `cycle` of `node` begins.
    pub(super) fn time_of(&self, node: u32, cycle: u64) -> Time {
        let clock = self.0.get(node as usize);
        clock.map_or(Time::MAX, |clock| clock.time_of(cycle))
    }
}

/// Collects calls and writes them to the trace.
pub(crate) struct Recorder {
    writer: Option<QueuedWriter>,
    /// True if another host writes the trace and receives the calls.
    relays: bool,
    clocks: Clocks,
    /// Calls that unknown earlier ones may precede.
    held: Vec<Event>,
    /// Filters between the calls and the writer.
    passage: Passage,
    /// Maximum number of held calls until the next check.
    patience: usize,
    events: u64,
    probes: Option<ProbeRecorder>,
}

/// The held calls of a recorder, and the state of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecorderState {
    writer: Option<Vec<u8>>,
    held: Vec<u8>,
    passage: PassageState,
    events: u64,
    probes: Option<ProbeRecorderState>,
}

impl RecorderState {
    /// The state of the trace's writer, if there is a trace.
    pub(crate) fn trace_state(&self) -> Option<&[u8]> {
        self.writer.as_deref()
    }

    /// Checks that the trace in `directory` can be continued, without changing it.
    pub(crate) fn look(&self, directory: &RunDirectory) -> Result<(), RunError> {
        let Some(state) = &self.writer else {
            return Ok(());
        };
        let path = directory.path().join(belljar_trace::TRACE_FILE);
        let file = directory.existing_file(belljar_trace::TRACE_FILE)?;
        TraceWriter::resume(file, &path, state)?;
        let file = directory.open_file(belljar_trace::TRACE_FILE)?;
        TraceWriter::verify(file, &path, state)?;
        self.passage.look(directory)?;
        if let Some(probes) = &self.probes {
            ProbeRecorder::verify(directory, probes)?;
        }
        Ok(())
    }
}

impl Recorder {
    /// Starts the trace of a run, if it has one.
    pub(crate) fn create(plan: &Plan, directory: &RunDirectory) -> Result<Self, RunError> {
        let writer = if plan.trace.enabled {
            let path = directory.path().join(belljar_trace::TRACE_FILE);
            let file = directory.create_file(belljar_trace::TRACE_FILE)?;
            let accounted = plan.kinds().iter().any(|kind| kind.timing.is_some());
            let frames = plan.trace.frames;
            let contents = Contents { accounted, frames };
            let writer = TraceWriter::over(file, &path, &header(plan), contents)?;
            Some(QueuedWriter::of(writer, &path)?)
        } else {
            None
        };
        Ok(Self {
            writer,
            passage: Passage::create(plan, directory)?,
            probes: ProbeRecorder::create(plan, header(plan), directory)?,
            ..Self::relay(plan, false)
        })
    }

    /// Collects calls for the host that writes the trace, if there is one.
    pub(crate) fn relay(plan: &Plan, relays: bool) -> Self {
        Self {
            writer: None,
            relays,
            clocks: Clocks::of(plan),
            held: Vec::new(),
            passage: Passage::default(),
            patience: BATCH,
            events: 0,
            probes: ProbeRecorder::relay(plan).filter(|_| relays),
        }
    }

    /// Saves the held calls and the state of the trace.
    pub(crate) fn save(&mut self) -> Result<RecorderState, RunError> {
        let writer = self.writer.as_mut().map(QueuedWriter::save).transpose()?;
        let rest = self.save_but(writer).map_err(CheckpointError::from)?;
        Ok(rest)
    }

    /// All but the state of the writer.
    fn save_but(&self, writer: Option<Vec<u8>>) -> Result<RecorderState, StateError> {
        Ok(RecorderState {
            writer,
            held: save_events(&self.held)?,
            passage: self.passage.save()?,
            events: self.events,
            probes: self.probes.as_ref().map_or(Ok(None), ProbeRecorder::save)?,
        })
    }

    /// Continues the trace of a run from its [saved](Self::save) state.
    pub(crate) fn resume(
        plan: &Plan,
        directory: &RunDirectory,
        saved: &RecorderState,
    ) -> Result<Self, RunError> {
        let path = directory.path().join(belljar_trace::TRACE_FILE);
        let resume = |state: &Vec<u8>| {
            let file = directory.existing_file(belljar_trace::TRACE_FILE)?;
            let writer = TraceWriter::resume(file, &path, state)?;
            Ok::<_, RunError>(QueuedWriter::of(writer, &path)?)
        };
        let held = load_events(&saved.held).map_err(|error| TraceError::State {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let resume_probes = |state| ProbeRecorder::resume(directory, state);
        Ok(Self {
            writer: saved.writer.as_ref().map(resume).transpose()?,
            relays: false,
            clocks: Clocks::of(plan),
            patience: held.len() + BATCH,
            held,
            passage: Passage::resume(plan, directory, &saved.passage)?,
            events: saved.events,
            probes: saved.probes.as_ref().map(resume_probes).transpose()?,
        })
    }

    /// Calls taken so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Takes a node's calls.
    pub(crate) fn take(&mut self, runner: &mut Runner) {
        if self.writer.is_some() || self.relays {
            self.accept(runner.take_events());
        }
        if let Some(probes) = &mut self.probes {
            probes.take(runner.take_probe_records());
        }
    }

    /// Takes the calls of another host's nodes, with the calls of each node in order.
    pub(crate) fn accept(&mut self, events: Vec<Event>) {
        self.events += events.len() as u64;
        self.held.extend(events);
    }

    /// The held calls for the host that writes the trace.
    pub(crate) fn take_relayed(&mut self) -> Vec<Event> {
        if self.relays {
            std::mem::take(&mut self.held)
        } else {
            Vec::new()
        }
    }

    /// Takes records of the user's probes on nodes of another host, with the records of each node in order.
    pub(crate) fn accept_probes(&mut self, records: Vec<ProbeRecord>) {
        if let Some(probes) = &mut self.probes {
            probes.take(records);
        }
    }

    /// The held records of probes for the host that writes their file.
    pub(crate) fn take_relayed_probes(&mut self) -> Vec<ProbeRecord> {
        let probes = self.probes.as_mut();
        probes.map_or_else(Vec::new, ProbeRecorder::take_relayed)
    }

    /// True if so many calls are held that they should be [settled](Self::settle).
    pub(crate) fn is_full(&self) -> bool {
        !self.relays && self.waiting() >= self.patience
    }

    /// The number of held calls and records.
    fn waiting(&self) -> usize {
        self.held.len() + self.probes.as_ref().map_or(0, ProbeRecorder::held)
    }

    /// Writes the calls that returned before `settled`, as no earlier one can come.
    pub(crate) fn settle(&mut self, settled: Time) -> Result<(), TraceError> {
        self.write_before(settled)?;
        if let Some(probes) = &mut self.probes {
            probes.write_before(settled, &self.clocks)?;
        }
        self.patience = self.waiting() + BATCH;
        Ok(())
    }

    fn write_before(&mut self, settled: Time) -> Result<(), TraceError> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let clocks = &self.clocks;
        let end = |event: &Event| event.end().map(|end| clocks.time_of(event.node, end));
        self.held
            .sort_by_cached_key(|event| (end(event), event.node));
        let returned = |event: &Event| end(event).is_none_or(|end| end < settled);
        let ready = self.held.partition_point(returned);
        let mut ready = self.held.drain(..ready);
        let mut push = |event| writer.push(event);
        ready.try_for_each(|event| self.passage.take(event, &mut push))
    }

    /// Writes all calls so far into `copy`, with those that did not return in `left`; `trace` is the file of the run's own trace, which
    /// does not change. `None` if the run has no trace.
    pub(crate) fn copy(
        &mut self,
        trace: &File,
        copy: File,
        left: Vec<LeftOver>,
    ) -> Result<Option<File>, RunError> {
        let Some(writer) = &mut self.writer else {
            return Ok(None);
        };
        let saved = writer.save()?;
        let path = PathBuf::from(belljar_trace::TRACE_FILE);
        let mut writer = TraceWriter::resume_copy(trace, copy, &path, &saved)?;
        let mut held = self.held.clone();
        let clocks = &self.clocks;
        let end = |event: &Event| event.end().map(|end| clocks.time_of(event.node, end));
        held.sort_by_cached_key(|event| (end(event), event.node));
        let mut passage = self.passage.copy();
        let mut push = |event| writer.push(event);
        held.into_iter()
            .try_for_each(|event| passage.take(event, &mut push))?;
        let open = left.into_iter().flat_map(|left| left.open);
        passage.end(open, &mut push)?;
        Ok(Some(writer.break_off()?))
    }

    /// Writes the held calls, the calls that did not return, and for a complete run the trace's end; `left` has the remains of
    /// all nodes, in order.
    pub(crate) fn finish(
        &mut self,
        left: Vec<LeftOver>,
        ending: &Ending,
    ) -> Result<(), TraceError> {
        self.write_before(Time::MAX)?;
        let Some(mut writer) = self.writer.take() else {
            return Ok(());
        };
        let (mut nodes, mut own, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for of in left {
            own.push(of.probes);
            open.extend(of.open);
            nodes.extend(of.summary);
        }
        let mut passage = std::mem::take(&mut self.passage);
        passage.end(open.into_iter(), &mut |event| writer.push(event))?;
        passage.finish()?;
        let mut writer = writer.into_writer()?;
        let ended = ending.to_string();
        let is_whole = matches!(ending, Ending::Workload(_));
        if let Some(probes) = self.probes.take() {
            probes.finish(own, is_whole, &self.clocks)?;
        }
        if is_whole {
            writer.finish(&TraceSummary {
                nodes,
                ending: ended,
            })?;
        } else {
            writer.flush()?;
            writer.cut()?;
        }
        Ok(())
    }
}

/// The remains of a node's tracer at the end.
#[derive(Debug)]
pub(crate) struct LeftOver {
    /// Calls that never returned.
    pub(crate) open: Vec<Event>,
    /// Its summary.
    pub(crate) summary: Option<NodeSummary>,
    /// The remains of the user's probes.
    pub(crate) probes: ProbesLeft,
}

impl LeftOver {
    pub(crate) fn of(runner: &Runner) -> Self {
        let tracer = runner.tracer();
        Self {
            open: tracer.map_or_else(Vec::new, NodeTracer::open_calls),
            summary: runner.trace_summary(),
            probes: tracer.map_or_else(Default::default, |tracer| {
                tracer.probes_left(runner.node().now_cycles())
            }),
        }
    }
}

/// The calls of a node that a run records.
pub(crate) fn selection(plan: &Plan, node: u32) -> Selection {
    let clock = plan.kind_of(node).clock;
    let cycle = |time: Span| clock.cycle_at(Time::ZERO + time);
    Selection {
        functions: plan.trace.functions.clone(),
        window: (plan.trace.from.is_some() || plan.trace.until.is_some()).then(|| Window {
            start: plan.trace.from.map_or(0, |from| cycle(from.0)),
            end: plan.trace.until.map_or(u64::MAX, |until| cycle(until.0)),
        }),
        sampling: plan.trace.sample.clone(),
        datatypes: plan.trace.datatypes,
    }
}

fn header(plan: &Plan) -> TraceHeader {
    TraceHeader::new(&plan.name, &plan.clocks())
        .with_processors(&modelled_processors(plan))
        .with_datatypes(plan.trace.datatypes)
}
