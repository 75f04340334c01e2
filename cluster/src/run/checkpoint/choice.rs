//! From which checkpoint a run continues: the newest of which everything is whole.
//!
//! A checkpoint is tried when its record and the snapshot that it speaks of are whole, and chosen when
//! all that it needs is, pages and the run's own files: they are checked as the nodes are made of
//! them, so that nothing is read twice, and before anything in the run directory is changed. One that is
//! not whole is told of, and the one before it is tried.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::keeper::numbered;
use super::{CheckpointError, FOLDER, Found, RECORD};
use crate::results::run_directory::RunDirectory;

/// The checkpoints of a run from which it may continue.
#[derive(Debug)]
pub struct Choice {
    folder: PathBuf,
    /// Those that were not tried yet, in order.
    left: Vec<u32>,
    /// One that was found whole already.
    whole: Option<Found>,
    /// Why others were refused.
    refused: Vec<String>,
}

impl Choice {
    /// Among those of the run in `directory`.
    ///
    /// # Errors
    /// [`CheckpointError::None`] when there is none.
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

    /// The newest that was not tried yet and can be opened.
    ///
    /// # Errors
    /// [`CheckpointError::Unusable`] when none is left, with what is wrong with each.
    pub(crate) fn next(&mut self) -> Result<Found, CheckpointError> {
        if let Some(whole) = self.whole.take() {
            return Ok(whole);
        }
        while let Some(number) = self.left.pop() {
            match Found::open(&self.folder, number) {
                Ok(found) => return Ok(found),
                Err(why) => self.refuse(number, &why),
            }
        }
        Err(CheckpointError::Unusable {
            folder: self.folder.clone(),
            reason: self.refused.join("; "),
        })
    }

    /// Tells that a checkpoint is not whole.
    pub(crate) fn refuse(&mut self, number: u32, why: &str) {
        tracing::warn!("checkpoint {number} is not usable: {why}");
        self.refused.push(format!("{number}: {why}"));
    }

    /// Settles on the newest of which all is whole, without making anything of it: where other hosts are
    /// to be given its files. `directory` has the run's own files.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub fn settle(&mut self, directory: &RunDirectory) -> Result<&Found, CheckpointError> {
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
