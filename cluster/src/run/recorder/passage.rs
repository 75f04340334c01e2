//! Filters between the order of virtual time and the trace's writer.
//!
//! Polls without success are folded, and iterations of the main loop are dropped, as the scenario requests. A file next to
//! the trace describes the dropped calls. It is empty from the run's start on, so that a truncated trace is known to lack
//! calls, and complete at the end. Part of the recorder.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::PathBuf;

use belljar_thinning::{COLLECTED_FILE, Collected, Collector};
use belljar_trace::{Event, Folder, StateError, TraceError, load_events, save_events};
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::results::run_directory::RunDirectory;
use crate::run::error::RunError;
use crate::scenario::Polls;

/// The state of the filters.
#[derive(Default)]
pub(super) struct Passage {
    /// Combines polls into one record, if they are folded.
    folder: Option<Folder>,
    dropping: Option<Dropping>,
}

/// The filter that drops iterations, and its file.
struct Dropping {
    collector: Collector,
    file: File,
    path: PathBuf,
}

/// The saved state of the filters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PassageState {
    /// Polls in the process of folding.
    #[serde(with = "serde_bytes")]
    polls: Vec<u8>,
    /// The state of the filter that drops iterations.
    collector: Option<Vec<u8>>,
}

impl PassageState {
    /// Checks that it can be continued in `directory`, without changing it.
    pub(super) fn look(&self, directory: &RunDirectory) -> Result<(), RunError> {
        if let Some(state) = &self.collector {
            directory.existing_file(COLLECTED_FILE)?;
            Collector::load(state).map_err(|error| unloadable(directory, &error))?;
        }
        load_events(&self.polls).map_err(|error| unloadable(directory, &error))?;
        Ok(())
    }
}

impl Passage {
    /// The filters of a new run.
    pub(super) fn create(plan: &Plan, directory: &RunDirectory) -> Result<Self, RunError> {
        let begin = |iterations| {
            let file = directory.create_file(COLLECTED_FILE)?;
            let collector = Collector::new(iterations);
            Ok::<_, RunError>(Dropping::begin(collector, file, directory)?)
        };
        let wanted = plan.trace.collect.filter(|_| plan.trace.enabled);
        Ok(Self {
            folder: folds(plan).then(Folder::default),
            dropping: wanted.map(|wanted| begin(wanted.0)).transpose()?,
        })
    }

    /// The filters of a run from their [saved](Self::save) state.
    pub(super) fn resume(
        plan: &Plan,
        directory: &RunDirectory,
        saved: &PassageState,
    ) -> Result<Self, RunError> {
        let unloadable = |error: StateError| unloadable(directory, &error);
        let resume = |state: &Vec<u8>| {
            let file = directory.existing_file(COLLECTED_FILE)?;
            let collector = Collector::load(state).map_err(unloadable)?;
            Ok::<_, RunError>(Dropping::begin(collector, file, directory)?)
        };
        let polls = load_events(&saved.polls).map_err(unloadable)?;
        Ok(Self {
            folder: folds(plan).then(|| Folder::holding(polls)),
            dropping: saved.collector.as_ref().map(resume).transpose()?,
        })
    }

    /// Saves the state of the filters.
    pub(super) fn save(&self) -> Result<PassageState, StateError> {
        let held = self.folder.as_ref().map_or_else(Vec::new, Folder::held);
        let collector = self.dropping.as_ref().map(|it| it.collector.save());
        Ok(PassageState {
            polls: save_events(&held)?,
            collector: collector.transpose()?,
        })
    }

    /// A copy of the filters, of a run that drops no iterations.
    pub(super) fn copy(&self) -> Self {
        let folder = self.folder.as_ref();
        Self {
            folder: folder.map(|folder| Folder::holding(folder.held())),
            dropping: None,
        }
    }

    /// Takes a call, in the order of the trace, and passes records to `next`.
    pub(super) fn take(
        &mut self,
        event: Event,
        next: &mut impl FnMut(Event) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let dropping = &mut self.dropping;
        let mut folded = |event| match dropping {
            Some(dropping) => dropping.collector.take(event, &mut *next),
            None => next(event),
        };
        match &mut self.folder {
            Some(folder) => folder.take(event, &mut folded),
            None => folded(event),
        }
    }

    /// Passes on the remaining records, and then calls that never returned; polls are not folded any more.
    pub(super) fn end(
        &mut self,
        open: impl Iterator<Item = Event>,
        next: &mut impl FnMut(Event) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        if let Some(mut folder) = self.folder.take() {
            let dropping = &mut self.dropping;
            folder.finish(&mut |event| match dropping {
                Some(dropping) => dropping.collector.take(event, &mut *next),
                None => next(event),
            })?;
        }
        for event in open {
            self.take(event, next)?;
        }
        Ok(())
    }

    /// Writes the description of the dropped calls.
    pub(super) fn finish(self) -> Result<(), TraceError> {
        match self.dropping {
            Some(mut it) => it.write(&it.collector.collected()),
            None => Ok(()),
        }
    }
}

impl Dropping {
    /// Records that calls are dropped, without details yet.
    fn begin(
        collector: Collector,
        file: File,
        directory: &RunDirectory,
    ) -> Result<Self, TraceError> {
        let path = directory.path().join(COLLECTED_FILE);
        let mut own = Self {
            collector,
            file,
            path,
        };
        let threads = Vec::new();
        let wanted = own.collector.wanted();
        own.write(&Collected { wanted, threads })?;
        Ok(own)
    }

    fn write(&mut self, collected: &Collected) -> Result<(), TraceError> {
        let mut write = || {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(collected.text().as_bytes())
        };
        write().map_err(|source| TraceError::Io {
            action: "write",
            path: self.path.clone(),
            source,
        })
    }
}

fn folds(plan: &Plan) -> bool {
    plan.trace.polls == Polls::Folded
}

fn unloadable(directory: &RunDirectory, error: &StateError) -> TraceError {
    TraceError::State {
        path: directory.path().join(belljar_trace::TRACE_FILE),
        reason: error.to_string(),
    }
}
