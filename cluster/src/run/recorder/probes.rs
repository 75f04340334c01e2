//! What probes of the user's saw on all nodes, in the order of virtual time, in a file of its own.
//!
//! Records wait until no earlier one can come, as calls do. Where another host writes the file they are only collected
//! for it. Part of the recorder of runs that have such probes.

use belljar_archive::{ProbesHeader, ProbesWriter};
use belljar_sim::Time;
use belljar_trace::{
    PROBES_FILE, Probe, ProbeRecord, ProbesEnd, StateError, TraceError, TraceHeader, load_probes,
    save_probes,
};
use serde::{Deserialize, Serialize};

use super::Clocks;
use crate::plan::Plan;
use crate::results::run_directory::RunDirectory;
use crate::run::error::RunError;

/// What a node's tracer has left of its probes at the end.
pub(crate) type ProbesLeft = (Vec<ProbeRecord>, ProbesEnd);

/// What such a recorder holds, and how far its file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProbeRecorderState {
    #[serde(with = "serde_bytes")]
    writer: Vec<u8>,
    #[serde(with = "serde_bytes")]
    held: Vec<u8>,
}

/// Collects records and writes them.
pub(super) struct ProbeRecorder {
    /// None where another host writes.
    writer: Option<ProbesWriter>,
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
            writer: Some(ProbesWriter::over(file, &path, &header)?),
            held: Vec::new(),
        }))
    }

    /// What collects records for the host that writes them, if the run has such probes.
    pub(super) fn relay(plan: &Plan) -> Option<Self> {
        let relay = Self {
            writer: None,
            held: Vec::new(),
        };
        (!plan.probes.is_empty()).then_some(relay)
    }

    /// What it holds, and how far the file is; nothing where another host writes it.
    pub(super) fn save(&self) -> Result<Option<ProbeRecorderState>, StateError> {
        let Some(writer) = &self.writer else {
            return Ok(None);
        };
        Ok(Some(ProbeRecorderState {
            writer: writer.save()?,
            held: save_probes(&self.held, ProbesEnd::default())?,
        }))
    }

    /// Checks that the file can be continued, and all of it that is kept. Changes nothing.
    pub(super) fn verify(
        directory: &RunDirectory,
        saved: &ProbeRecorderState,
    ) -> Result<(), RunError> {
        Self::resume(directory, saved)?;
        let path = directory.path().join(PROBES_FILE);
        let file = directory.open_file(PROBES_FILE)?;
        Ok(ProbesWriter::verify(file, &path, &saved.writer)?)
    }

    /// Continues the file where it was [saved](Self::save).
    pub(super) fn resume(
        directory: &RunDirectory,
        saved: &ProbeRecorderState,
    ) -> Result<Self, RunError> {
        let path = directory.path().join(PROBES_FILE);
        let (held, _) = load_probes(&saved.held).map_err(|error| TraceError::State {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let file = directory.existing_file(PROBES_FILE)?;
        Ok(Self {
            writer: Some(ProbesWriter::resume(file, &path, &saved.writer)?),
            held,
        })
    }

    /// What is held for the host that writes the file.
    pub(super) fn take_relayed(&mut self) -> Vec<ProbeRecord> {
        match self.writer {
            None => std::mem::take(&mut self.held),
            Some(_) => Vec::new(),
        }
    }

    /// Takes what a node's probes saw.
    pub(super) fn take(&mut self, records: Vec<ProbeRecord>) {
        self.held.extend(records);
    }

    /// How many are held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Writes what was known before `settled`.
    pub(super) fn write_before(
        &mut self,
        settled: Time,
        clocks: &Clocks,
    ) -> Result<(), TraceError> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let known = |record: &ProbeRecord| clocks.time_of(record.node, record.known);
        self.held
            .sort_by_cached_key(|record| (known(record), record.node));
        let ready = self.held.partition_point(|record| known(record) < settled);
        let mut ready = self.held.drain(..ready);
        ready.try_for_each(|record| writer.push(record))
    }

    /// Writes what is held and the calls that did not return, and for a run that is `whole` the file's end.
    pub(super) fn finish(
        mut self,
        left: Vec<ProbesLeft>,
        whole: bool,
        clocks: &Clocks,
    ) -> Result<(), TraceError> {
        let mut end = ProbesEnd::default();
        for (open, of) in left {
            self.held.extend(open);
            end.unfollowed = end.unfollowed.saturating_add(of.unfollowed);
        }
        self.write_before(Time::MAX, clocks)?;
        let Some(mut writer) = self.writer else {
            return Ok(());
        };
        if whole {
            return writer.finish(end);
        }
        writer.flush()?;
        writer.cut()
    }
}
