//! Files of a network, which anybody may have written: read as far as a bound.
//!
//! Called where a scenario's network names one.

use std::fs;
use std::io;
use std::path::Path;

use belljar_fabric::graphml::MAX_BYTES;
use belljar_files::read_input_text;

/// The text of a file.
///
/// # Errors
/// When it cannot be read, or is longer than any graph may be.
pub(in crate::plan) fn read(path: &Path) -> io::Result<String> {
    let size = fs::metadata(path)?.len();
    if size > MAX_BYTES as u64 {
        return Err(io::Error::other(format!(
            "it has {size} bytes, more than {MAX_BYTES}"
        )));
    }
    read_input_text(path)
}
