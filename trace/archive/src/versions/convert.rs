//! Conversion of a trace of an earlier version to the current one.
//!
//! The calls stay the same. A trace that breaks off is converted up to its end, and the copy breaks off there as well.
//! Used by `belljar trace convert`.

use std::fs::{self, File};
use std::path::Path;

use belljar_trace::{TraceError, TraceState};

use crate::failed;
use crate::versions::TraceReader;
use crate::writer::TraceWriter;

/// Writes the trace at `from` to the new file `to`, in the current version of the format. Returns the end state of the
/// trace at `from`.
///
/// # Errors
/// Returns [`TraceError`] if the trace cannot be read or the new file cannot be written, such as when it exists; the
/// new file is removed then.
pub fn convert(from: &Path, to: &Path) -> Result<TraceState, TraceError> {
    let mut reader = TraceReader::open(from)?;
    let file = File::create_new(to).map_err(|source| failed("create", to, source))?;
    let written = copy(&mut reader, file, to);
    if written.is_err() {
        // The original error is returned, so an error here is ignored.
        let _ = fs::remove_file(to);
    }
    written.map(|()| reader.state().clone())
}

fn copy(reader: &mut TraceReader, file: File, to: &Path) -> Result<(), TraceError> {
    let header = reader.header().clone();
    let mut writer = TraceWriter::over(file, to, &header, reader.contents())?;
    for call in reader.by_ref() {
        writer.push(call)?;
    }
    match reader.summary() {
        Some(summary) => writer.finish(summary).map(drop),
        None => writer.flush(),
    }
}
