//! Selects the newest intact checkpoint.
//!
//! A checkpoint is tried if its record and its snapshot are intact. It is selected if all of its data
//! is, pages and the run's own files: they are checked while nodes are made from them, so that each is
//! read only once, and before the run directory changes. A damaged one is reported, and the previous one
//! is tried.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::keeper::numbered;
use super::{CheckpointError, FOLDER, IntactCheckpoint, RECORD};
use crate::results::run_directory::RunDirectory;

/// The checkpoints from which a run may continue.
#[derive(Debug)]
pub struct CheckpointChoice {
    folder: PathBuf,
    /// Untried checkpoints, in order.
    left: Vec<u32>,
    /// A checkpoint that is known to be intact.
    whole: Option<IntactCheckpoint>,
    /// Faults of refused checkpoints.
    refused: Vec<String>,
}

impl CheckpointChoice {
    /// The checkpoints of the run in `directory`.
    ///
    /// # Errors
    /// [`CheckpointError::None`] if there is none.
    pub fn among(directory: &Path) -> Result<Self, CheckpointError> {
        let folder = directory.join(FOLDER);
        let files = numbered(&folder).into_iter();
        let records = files.filter(|(_, ending, _)| ending == RECORD);
        let numbers: BTreeSet<u32> = records.map(|(number, _, _)| number).collect();
        if numbers.is_empty() {
            return Err(CheckpointError::None(directory.to_owned()));
        }
        Ok(Self {
            folder,
            left: numbers.into_iter().collect(),
            whole: None,
            refused: Vec::new(),
        })
    }

    /// The newest untried checkpoint that can be opened.
    ///
    /// # Errors
    /// [`CheckpointError::Unusable`] if none is left, with the fault of each.
    pub(crate) fn next(&mut self) -> Result<IntactCheckpoint, CheckpointError> {
        if let Some(whole) = self.whole.take() {
            return Ok(whole);
        }
        while let Some(number) = self.left.pop() {
            match IntactCheckpoint::open(&self.folder, number) {
                Ok(found) => return Ok(found),
                Err(why) => self.refuse(number, &why),
            }
        }
        Err(CheckpointError::Unusable {
            folder: self.folder.clone(),
            reason: self.refused.join("; "),
        })
    }

    /// Reports a damaged checkpoint.
    pub(crate) fn refuse(&mut self, number: u32, why: &str) {
        tracing::warn!("checkpoint {number} is not usable: {why}");
        self.refused.push(format!("{number}: {why}"));
    }

    /// Selects the newest intact one without making nodes from it, for sending its files to other hosts.
    /// `directory` has the run's own files.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub fn settle(
        &mut self,
        directory: &RunDirectory,
    ) -> Result<&IntactCheckpoint, CheckpointError> {
        loop {
            let found = self.next()?;
            let whole = found.look(directory).and_then(|()| found.verify_pages());
            match whole {
                Ok(()) => {
                    self.left.clear();
                    return Ok(self.whole.insert(found));
                }
                Err(why) => self.refuse(found.run.number, &why),
            }
        }
    }
}

#[cfg(test)]
mod tests;
