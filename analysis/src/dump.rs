//! A trace, event by event: as text or as JSON lines.
//!
//! The trace is read twice, because ranks of communicators are known only after the whole trace was read. Damage ends the output
//! at that point, and is reported to the caller. Used by `belljar trace`; statistics are also started here, with the same filter.

/// Call sites.
pub(crate) mod frames;
/// An event as a JSON object.
mod json;
/// Records of the user's probes, among the calls of MPI.
pub(crate) mod probes;
/// An event as a line of text.
mod text;
/// Names of values: ranks, communicators, datatypes, operations.
pub(crate) mod words;

use std::io;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::{Communicators, communicators};
use belljar_sim::Time;
use belljar_thinning::Collected;
use belljar_trace::{Event, TraceError, TraceHeader, TraceState, matches};

use crate::counted::TimesMode;
use crate::structure::phases::InPhase;
use crate::sums::cpi::{CpiCollector, CpiStatistics, Ratio};
use crate::sums::stat::{ProbeStat, StatCollector, Statistics};
use frames::{FrameNames, SiteFrame};
use probes::Records;

/// Selection of events. An empty list, like `None`, selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Ranks in `MPI_COMM_WORLD`.
    pub ranks: Vec<u32>,
    /// Names of functions, or patterns with `*` and `?`.
    pub functions: Vec<String>,
    /// Calls that returned at this time or later.
    pub from: Option<Time>,
    /// Calls that were entered before this time.
    pub to: Option<Time>,
    /// Calls of one phase of the program.
    pub phase: Option<InPhase>,
}

impl Filter {
    /// True if an event is selected.
    pub fn wants(&self, event: &Event, header: &TraceHeader) -> bool {
        let frequency = header.frequency(event.node);
        let ranks = self.ranks.is_empty() || self.ranks.contains(&event.rank);
        let names = || {
            let mut patterns = self.functions.iter();
            self.functions.is_empty() || patterns.any(|pattern| matches(pattern, event.name()))
        };
        // A call that never returned lasts to the end of time.
        let left = event.exit.map_or(Time::MAX, |exit| frequency.time_of(exit));
        let from = self.from.is_none_or(|from| left >= from);
        let to = self.to.is_none_or(|to| frequency.time_of(event.entry) < to);
        let phase = || self.phase.as_ref().is_none_or(|phase| phase.has(event));
        event.selected && ranks && from && to && names() && phase()
    }
}

/// The format of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpFormat {
    /// A line of text for each event.
    Text,
    /// A JSON object in a line for each event.
    Json,
}

/// An error of an analysis.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The result cannot be written.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
}

/// Writes the selected events of the trace at `path` to `out`, in the order in which they were recorded: by node, calls in the
/// order of their returns. Records of the user's probes are merged by time. With `sites`, calls are written with their call
/// sites, if the trace has them. Returns whether the trace is complete.
///
/// # Errors
/// Returns [`AnalysisError`] if the trace cannot be read or the result cannot be written.
pub fn dump(
    path: &Path,
    filter: &Filter,
    format: DumpFormat,
    mut sites: Option<FrameNames<'_>>,
    out: &mut dyn io::Write,
) -> Result<TraceState, AnalysisError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let mut records = Records::beside(path)?;
    let mut returned = Time::ZERO;
    for event in reader.by_ref() {
        if let Some(records) = &mut records {
            let exit = event
                .exit
                .map(|exit| header.frequency(event.node).time_of(exit));
            returned = exit.unwrap_or(returned);
            records.write_before(returned, filter, format, sites.as_mut(), out)?;
        }
        if filter.wants(&event, &header) {
            let frames = sites
                .as_mut()
                .map_or_else(Vec::new, |sites| sites.frames(&event.site));
            write_made_at(&event, &header, &communicators, &frames, format, out)?;
        }
    }
    let state = reader.state().clone();
    let Some(mut records) = records else {
        return Ok(state);
    };
    records.write_before(Time::MAX, filter, format, sites.as_mut(), out)?;
    Ok(records.state(state))
}

/// Writes one event as one line.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write_event(
    event: &Event,
    header: &TraceHeader,
    communicators: &Communicators,
    format: DumpFormat,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    write_made_at(event, header, communicators, &[], format, out)
}

/// Formats the arguments of a call with their names, as in the lines of a dump: `source=0, tag=2006`. Addresses are omitted, as
/// they mean nothing outside of the process.
pub fn argument_words(event: &Event) -> String {
    let parameters = event.description().parameters.iter();
    let named = parameters.zip(&event.arguments).enumerate();
    let named = named.filter_map(|(index, (parameter, word))| {
        let shown = words::argument(event, index, parameter, *word);
        let told = parameter.pointer == 0 || !shown.starts_with("0x");
        told.then(|| format!("{}={shown}", parameter.name))
    });
    named.collect::<Vec<String>>().join(", ")
}

/// Writes the same with the call site.
fn write_made_at(
    event: &Event,
    header: &TraceHeader,
    communicators: &Communicators,
    frames: &[SiteFrame],
    format: DumpFormat,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        DumpFormat::Text => {
            let line = text::line(event, header, communicators);
            writeln!(out, "{line}{}", text::made_at(frames))
        }
        DumpFormat::Json => {
            let mut object = json::object(event, header, communicators);
            if !frames.is_empty() {
                object.insert("site".to_owned(), serde_json::json!(frames));
            }
            serde_json::to_writer(&mut *out, &object)?;
            writeln!(out)
        }
    }
}

/// Computes statistics of the selected events of the trace at `path`, and whether it is complete.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn statistics(path: &Path, filter: &Filter) -> Result<(Statistics, TraceState), TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let mut collector = StatCollector::new(&header, &communicators);
    for event in reader.by_ref().filter(|event| filter.wants(event, &header)) {
        collector.observe(&event);
    }
    finished(collector, &reader, path, filter)
}

/// Completes the statistics of a trace, after `collector` has seen all events of `reader`, with the files next to the trace.
pub(crate) fn finished(
    mut collector: StatCollector<'_>,
    reader: &TraceReader,
    path: &Path,
    filter: &Filter,
) -> Result<(Statistics, TraceState), TraceError> {
    complete(&mut collector, path, filter)?;
    // Calls that the filter excludes were not unrecorded.
    let summary = reader.summary().filter(|_| *filter == Filter::default());
    let mut statistics = collector.finish(summary);
    // Efficiencies only apply to whole programs.
    if *filter != Filter::default() || statistics.kept.is_some() {
        statistics.efficiency = None;
    }
    let mut state = reader.state().clone();
    if let Some(mut records) = Records::beside(path)? {
        statistics.probes = ProbeStat::of(&mut records, filter);
        statistics.unfollowed = records.unfollowed();
        state = records.state(state);
    }
    Ok((statistics, state))
}

/// Adds the calls dropped from the trace at `path`, if only some iterations were kept.
fn complete(
    collector: &mut StatCollector<'_>,
    path: &Path,
    filter: &Filter,
) -> Result<(), TraceError> {
    let collected = Collected::of_trace(path).map_err(|error| TraceError::Lacks {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    if let Some(collected) = collected {
        collector.complete(&collected, filter);
    }
    Ok(())
}

/// Computes the same without any times, which are not read, and without records of the user's probes.
///
/// # Errors
/// The same as for [`statistics`].
pub fn counts(path: &Path, filter: &Filter) -> Result<(Statistics, TraceState), TraceError> {
    const TIMES: TimesMode = TimesMode::Unread;
    let communicators = TIMES.communicators(path)?;
    let mut reader = TIMES.open(path)?;
    let header = reader.header().clone();
    let mut collector = StatCollector::untimed(&header, &communicators);
    for event in reader.by_ref().filter(|event| filter.wants(event, &header)) {
        collector.observe(&event);
    }
    complete(&mut collector, path, filter)?;
    let summary = reader.summary().filter(|_| *filter == Filter::default());
    Ok((collector.finish(summary), reader.state().clone()))
}

/// Computes cycles per instruction from the selected events of the trace at `path`, and whether it is complete. If events have no
/// accounts, instructions are computed from cycles by `ratio`.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn cpi(
    path: &Path,
    filter: &Filter,
    ratio: Ratio,
) -> Result<(CpiStatistics, TraceState), TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let ratio = (!reader.is_accounted()).then_some(ratio);
    let mut collector = CpiCollector::new(&communicators, ratio);
    for event in reader.by_ref().filter(|event| filter.wants(event, &header)) {
        collector.observe(&event);
    }
    Ok((collector.finish(), reader.state().clone()))
}

#[cfg(test)]
mod tests;
