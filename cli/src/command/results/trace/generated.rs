//! Synthetic runs: `model.txt` next to a trace that `belljar model generate` made.
//!
//! Called by commands that read traces.

use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, Result};
use belljar_files::open_input;

/// The file that names the model of a generated run.
pub(in crate::command) const ORIGIN_FILE: &str = "model.txt";

/// The beginning of its first line.
const BEGIN: &str = "never ran: ";

/// Bytes of the file that are read, at most.
const MOST_BYTES: u64 = 1 << 16;

/// The text of `model.txt` next to a trace; `None` for a trace of a real run.
///
/// # Errors
/// If the file exists and cannot be read.
pub(in crate::command) fn origin_text(trace: &Path) -> Result<Option<String>> {
    let path = trace.with_file_name(ORIGIN_FILE);
    let failed = || format!("cannot read {}", path.display());
    let file = match open_input(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.with_context(failed)?,
    };
    let mut bytes = Vec::new();
    file.take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .with_context(failed)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(text.starts_with(BEGIN).then_some(text))
}

/// The warning about a synthetic run, with its model; `None` for a real run.
///
/// # Errors
/// If `model.txt` exists and cannot be read.
pub(in crate::command) fn never_ran(trace: &Path) -> Result<Option<String>> {
    let text = origin_text(trace)?;
    Ok(text.and_then(|text| text.lines().next().map(str::to_owned)))
}
