//! Records of the user's probes on all nodes, in the order of virtual time, in a separate file.
//!
//! Records wait until no earlier one can come, as calls do. If another host writes the file, they are only collected
//! for it. Part of the recorder of runs with such probes.

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

/// The remains of a node's probes at the end.
pub(crate) type ProbesLeft = (Vec<ProbeRecord>, ProbesEnd);

/// The held records of such a recorder, and the state of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProbeRecorderState {
    #[serde(with = "serde_bytes")]
    writer: Vec<u8>,
    #[serde(with = "serde_bytes")]
    held: Vec<u8>,
}

/// Collects records and writes them.
pub(super) struct ProbeRecorder {
    /// `None` if another host writes.
    writer: Option<ProbesWriter>,
    /// Records that unknown earlier ones may precede.
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

    /// Collects records for the host that writes them, if the run has such probes.
    pub(super) fn relay(plan: &Plan) -> Option<Self> {
        let relay = Self {
            writer: None,
            held: Vec::new(),
        };
        (!plan.probes.is_empty()).then_some(relay)
    }

    /// Saves the held records and the state of the file; `None` if another host writes it.
    pub(super) fn save(&self) -> Result<Option<ProbeRecorderState>, StateError> {
        let Some(writer) = &self.writer else {
            return Ok(None);
        };
        Ok(Some(ProbeRecorderState {
            writer: writer.save()?,
            held: save_probes(&self.held, ProbesEnd::default())?,
        }))
    }

    /// Checks that the file can be continued, and its kept content. Changes nothing.
    pub(super) fn verify(
        directory: &RunDirectory,
        saved: &ProbeRecorderState,
    ) -> Result<(), RunError> {
        Self::resume(directory, saved)?;
        let path = directory.path().join(PROBES_FILE);
        let file = directory.open_file(PROBES_FILE)?;
        Ok(ProbesWriter::verify(file, &path, &saved.writer)?)
    }

    /// Continues the file from its [saved](Self::save) state.
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

    /// The held records for the host that writes the file.
    pub(super) fn take_relayed(&mut self) -> Vec<ProbeRecord> {
        match self.writer {
            None => std::mem::take(&mut self.held),
            Some(_) => Vec::new(),
        }
    }

    /// Takes the records of a node's probes.
    pub(super) fn take(&mut self, records: Vec<ProbeRecord>) {
        self.held.extend(records);
    }

    /// The number of held records.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Writes the records before `settled`.
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

    /// Writes the held records and the calls that did not return, and for a `whole` run the file's end.
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
