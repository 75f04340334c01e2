//! Records of the user's probes, among the calls of MPI.
//!
//! They are in a separate file next to a run's trace (`PROBES_FILE`), in the order of their completion: at their
//! returns, like calls. Without such a file, there are no records. Used by dumps and statistics.

use std::io;
use std::path::Path;

use belljar_archive::{ProbesHeader, ProbesReader};
use belljar_mpi::FUNCTIONS;
use belljar_sim::Time;
use belljar_trace::{
    PROBES_FILE, Probe, ProbeAt, ProbeRecord, ProbeValue, TRACE_FILE, TraceError, TraceHeader,
    TraceState, ValueKind, matches,
};
use serde_json::{Map, Value, json};

use super::frames::FrameNames;
use super::{DumpFormat, Filter, text};
use crate::table::time;

/// The records next to a trace, one after another.
pub(crate) struct Records {
    header: ProbesHeader,
    reader: ProbesReader,
    next: Option<ProbeRecord>,
}

impl Records {
    /// Opens the records of the run whose trace is at `path`, if it has any.
    pub(crate) fn beside(path: &Path) -> Result<Option<Self>, TraceError> {
        let probes = path.with_file_name(PROBES_FILE);
        let is_of_run = path.file_name().is_some_and(|name| name == TRACE_FILE);
        if !is_of_run || !probes.exists() {
            return Ok(None);
        }
        let mut reader = ProbesReader::open(&probes)?;
        Ok(Some(Self {
            header: reader.header().clone(),
            next: reader.next(),
            reader,
        }))
    }

    pub(crate) fn header(&self) -> &ProbesHeader {
        &self.header
    }

    /// Returns the next record, if it was complete before `time`, and its probe.
    pub(crate) fn next_before(&mut self, time: Time) -> Option<(ProbeRecord, &Probe)> {
        let record = self.next.as_ref()?;
        let known = self
            .header
            .trace
            .frequency(record.node)
            .time_of(record.known);
        if time != Time::MAX && known >= time {
            return None;
        }
        let record = std::mem::replace(&mut self.next, self.reader.next())?;
        let probe = self.header.probes.get(record.probe as usize)?;
        Some((record, probe))
    }

    /// Returns the number of calls whose returns were not followed, once all records are read.
    pub(crate) fn unfollowed(&self) -> u64 {
        self.reader.end().map_or(0, |end| end.unfollowed)
    }

    /// Returns the combined completeness of the trace, in state `trace`, and of the records, once all are read.
    pub(crate) fn state(&self, trace: TraceState) -> TraceState {
        match (trace, self.reader.state()) {
            (TraceState::Complete, TraceState::Incomplete { offset, reason }) => {
                TraceState::Incomplete {
                    offset: *offset,
                    reason: format!("{PROBES_FILE}: {reason}"),
                }
            }
            (trace, _) => trace,
        }
    }

    /// Writes the selected records that were complete before `time`.
    pub(crate) fn write_before(
        &mut self,
        time: Time,
        filter: &Filter,
        format: DumpFormat,
        mut sites: Option<&mut FrameNames<'_>>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let trace = self.header.trace.clone();
        while let Some((record, probe)) = self.next_before(time) {
            if !filter.wants_record(&record, probe, &trace) {
                continue;
            }
            let frames = sites
                .as_mut()
                .map_or_else(Vec::new, |sites| sites.frames(&record.site));
            match format {
                DumpFormat::Text => {
                    let line = line(&record, probe, &trace);
                    writeln!(out, "{line}{}", text::made_at(&frames))?;
                }
                DumpFormat::Json => {
                    let mut object = object(&record, probe, &trace);
                    if !frames.is_empty() {
                        object.insert("site".to_owned(), json!(frames));
                    }
                    serde_json::to_writer(&mut *out, &object)?;
                    writeln!(out)?;
                }
            }
        }
        Ok(())
    }
}

impl Filter {
    /// True if a record of a probe is selected; a probe's name is treated as a function's.
    pub(crate) fn wants_record(
        &self,
        record: &ProbeRecord,
        probe: &Probe,
        header: &TraceHeader,
    ) -> bool {
        let mut patterns = self.functions.iter();
        let named =
            self.functions.is_empty() || patterns.any(|pattern| matches(pattern, &probe.name));
        named && self.wants_otherwise(record, probe, header)
    }

    /// True if a message is selected; functions are those within which messages were sent.
    pub(crate) fn wants_message(
        &self,
        record: &ProbeRecord,
        probe: &Probe,
        header: &TraceHeader,
    ) -> bool {
        let within = within(record).unwrap_or_default();
        let mut patterns = self.functions.iter();
        let named = self.functions.is_empty() || patterns.any(|pattern| matches(pattern, within));
        named && self.wants_otherwise(record, probe, header)
    }

    /// True if it is selected by all criteria except names.
    fn wants_otherwise(&self, record: &ProbeRecord, probe: &Probe, header: &TraceHeader) -> bool {
        let frequency = header.frequency(record.node);
        let rank = record.rank;
        let ranks = self.ranks.is_empty() || rank.is_some_and(|rank| self.ranks.contains(&rank));
        let left = match (record.exit, probe.at) {
            (Some(exit), _) => frequency.time_of(exit),
            (None, ProbeAt::Entry) => frequency.time_of(record.entry),
            // A call that never returned lasts to the end of time.
            (None, _) => Time::MAX,
        };
        let from = self.from.is_none_or(|from| left >= from);
        let to = self
            .to
            .is_none_or(|to| frequency.time_of(record.entry) < to);
        let process = record.process.map(|process| (record.node, process));
        let within = self
            .phase
            .as_ref()
            .is_none_or(|phase| process.is_some_and(|process| phase.has_at(process, record.entry)));
        ranks && from && to && within
    }
}

/// Returns the function of the MPI call within which a record was made.
fn within(record: &ProbeRecord) -> Option<&'static str> {
    let function = FUNCTIONS.get(usize::from(record.within?))?;
    Some(function.name)
}

/// Formats a record as a line of text.
fn line(record: &ProbeRecord, probe: &Probe, header: &TraceHeader) -> String {
    let frequency = header.frequency(record.node);
    let entry = frequency.time_of(record.entry);
    let rank = record.rank.map_or("-".to_owned(), |rank| rank.to_string());
    let arguments = record.arguments.iter().zip(&probe.arguments);
    let arguments = arguments
        .map(|(value, kind)| value.in_words(*kind))
        .zip(0..);
    let arguments: Vec<String> = arguments
        .map(|(value, number)| match probe.purpose.argument(number) {
            Some(name) => format!("{name}={value}"),
            None => value,
        })
        .collect();
    let mut line = format!(
        "{} rank {rank:<4} node {:<4} {:indent$}{}({})",
        text::seconds(entry),
        record.node,
        "",
        probe.name,
        arguments.join(", "),
        indent = 2 * usize::from(record.depth.min(16)),
    );
    if let (Some(result), Some(kind)) = (&record.result, probe.result) {
        line += &format!(" = {}", result.in_words(kind));
    }
    match (record.exit, probe.at) {
        (Some(exit), _) => {
            let span = frequency.time_of(exit).since(entry);
            line += &format!(" <{}>", time(span.as_ps()));
        }
        (None, ProbeAt::Entry) => {}
        (None, _) => line += " did not return",
    }
    if let Some(function) = within(record) {
        line += &format!(" in {function}");
    }
    if record.program.is_empty() {
        line + &format!(" [task {}]", record.task)
    } else {
        line + &format!(" [task {} of {:?}]", record.task, record.program)
    }
}

/// Returns a record as a JSON object, with the keys of calls where they mean the same. Missing values are omitted.
fn object(record: &ProbeRecord, probe: &Probe, header: &TraceHeader) -> Map<String, Value> {
    let frequency = header.frequency(record.node);
    let entry = frequency.time_of(record.entry);
    let duration = record.exit.map(|exit| frequency.time_of(exit).since(entry));
    let arguments = record.arguments.iter().zip(&probe.arguments);
    let arguments: Vec<Value> = arguments.map(|(it, kind)| value(it, *kind)).collect();
    let result = record.result.as_ref().zip(probe.result);
    let program = (!record.program.is_empty()).then_some(&*record.program);
    let members = [
        ("probe", json!(probe.name)),
        ("node", json!(record.node)),
        ("vcpu", json!(record.vcpu)),
        ("task", json!(record.task)),
        ("program", json!(program)),
        ("process", json!(record.process)),
        ("thread", json!(record.thread)),
        ("rank", json!(record.rank)),
        ("depth", json!(record.depth)),
        ("within", json!(within(record))),
        ("entry", json!(record.entry)),
        ("exit", json!(record.exit)),
        ("entry_ps", json!(entry.as_ps())),
        ("duration_ps", json!(duration.map(|span| span.as_ps()))),
        ("arguments", json!(arguments)),
        ("result", json!(result.map(|(it, kind)| value(it, kind)))),
    ];
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    members
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Converts a value: numbers within the range of JSON as numbers, addresses and all others as texts.
fn value(value: &ProbeValue, kind: ValueKind) -> Value {
    match (value, kind) {
        (ProbeValue::Text(text), _) => json!(text),
        (ProbeValue::Word(word), ValueKind::Unsigned(_)) => json!(word),
        (ProbeValue::Word(word), ValueKind::Signed(_)) => json!(word.cast_signed()),
        (ProbeValue::Word(word), ValueKind::Double) if f64::from_bits(*word).is_finite() => {
            json!(f64::from_bits(*word))
        }
        (ProbeValue::Word(word), ValueKind::Single) if f32::from_bits(*word as u32).is_finite() => {
            json!(f32::from_bits(*word as u32))
        }
        _ => json!(value.in_words(kind)),
    }
}
