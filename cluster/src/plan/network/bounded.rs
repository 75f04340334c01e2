//! Files of a network, which are untrusted: reading is bounded.
//!
//! Called for files that a scenario's network names.

use std::fs;
use std::io;
use std::path::Path;

use belljar_fabric::graphml::MAX_BYTES;
use belljar_files::read_input_text;

/// The text of a file.
///
/// # Errors
/// If it cannot be read, or exceeds the limit.
pub(in crate::plan) fn read(path: &Path) -> io::Result<String> {
    let size = fs::metadata(path)?.len();
    if size > MAX_BYTES as u64 {
        return Err(io::Error::other(format!(
            "it has {size} bytes, more than {MAX_BYTES}"
        )));
    }
    read_input_text(path)
}
