//! Copies of a trace that is being written.
//!
//! A copy contains all calls so far, and ends like the trace of an interrupted run. The trace itself does not change. Used by runs that
//! analyse their calls while they are in progress.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use belljar_trace::TraceError;

use super::TraceWriter;
use crate::failed;

/// Bytes of a part of a copied file.
const COPIED: usize = 1 << 16;

impl TraceWriter {
    /// As [`resume`](Self::resume), on a copy of the file: `onto` gets its first bytes up to the saved length.
    ///
    /// # Errors
    /// The same as for [`resume`](Self::resume).
    pub fn resume_copy(
        mut file: &File,
        mut onto: File,
        path: &Path,
        saved: &[u8],
    ) -> Result<Self, TraceError> {
        let failed = |source| failed("copy", path, source);
        file.rewind().map_err(failed)?;
        onto.set_len(0).map_err(failed)?;
        onto.rewind().map_err(failed)?;
        // `io::copy` would query metadata, which the sandbox of a run refuses to threads with guests.
        let mut buffer = vec![0; COPIED];
        loop {
            let count = file.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            onto.write_all(&buffer[..count]).map_err(failed)?;
        }
        Self::resume(onto, path, saved)
    }

    /// Writes the pending calls and returns the file, which ends there like that of an interrupted run.
    ///
    /// # Errors
    /// The same as for [`push`](Self::push).
    pub fn break_off(mut self) -> Result<File, TraceError> {
        self.flush()?;
        self.cut()?;
        Ok(self.file)
    }
}
