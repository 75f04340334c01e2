//! What probes of the user's saw on all nodes, in the order of virtual time, in a file of its own.
//!
//! Records wait until no earlier one can come, as calls do. Part of the recorder of runs that have such probes.

use belljar_archive::{ProbesHeader, ProbesWriter};
use belljar_trace::{PROBES_FILE, Probe, ProbeRecord, ProbesEnd, TraceError, TraceHeader};

use crate::plan::Plan;
use crate::results::run_directory::RunDirectory;
use crate::run::error::RunError;

/// What a node's tracer has left of its probes at the end.
pub(crate) type ProbesLeft = (Vec<ProbeRecord>, ProbesEnd);

/// Collects records and writes them.
pub(super) struct ProbeRecorder {
    writer: ProbesWriter,
    /// Records which others that are not known yet may precede.
    held: Vec<ProbeRecord>,
}

impl ProbeRecorder {
    /// Begins the file of a run, if it has probes of the user's.
    pub(super) fn create(
        plan: &Plan,
        trace: TraceHeader,
        directory: &RunDirectory,
    ) -> Result<Option<Self>, RunError> {
        if plan.probes.is_empty() {
            return Ok(None);
        }
        let probes: Vec<Probe> = plan.probes.iter().map(|own| own.probe.clone()).collect();
        let path = directory.path().join(PROBES_FILE);
        let file = directory.create_file(PROBES_FILE)?;
        let header = ProbesHeader { trace, probes };
        Ok(Some(Self {
            writer: ProbesWriter::over(file, &path, &header)?,
            held: Vec::new(),
        }))
    }

    /// Takes what a node's probes saw.
    pub(super) fn take(&mut self, records: Vec<ProbeRecord>) {
        self.held.extend(records);
    }

    /// How many are held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Writes what was known before `cycle`.
    pub(super) fn write_before(&mut self, cycle: u64) -> Result<(), TraceError> {
        self.held.sort_by_key(|record| (record.known, record.node));
        let ready = self.held.partition_point(|record| record.known < cycle);
        let mut ready = self.held.drain(..ready);
        ready.try_for_each(|record| self.writer.push(record))
    }

    /// Writes what is held and the calls that did not return, and for a run that is `whole` the file's end.
    pub(super) fn finish(mut self, left: Vec<ProbesLeft>, whole: bool) -> Result<(), TraceError> {
        let mut end = ProbesEnd::default();
        for (open, of) in left {
            self.held.extend(open);
            end.unfollowed = end.unfollowed.saturating_add(of.unfollowed);
        }
        self.write_before(u64::MAX)?;
        if whole {
            return self.writer.finish(end);
        }
        self.writer.flush()?;
        self.writer.cut()
    }
}
