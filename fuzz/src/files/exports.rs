//! Traces of any content in other tools' formats.
//!
//! Every part of a trace is exported or reported as omitted. Called by name from `lib.rs`.

use belljar_formats::tables::{self, Encoding};
use belljar_formats::{Source, chrome, otf2, paraver, perfetto};

use super::{archive_chunks, stored};

/// Reads a trace and exports it to each streaming format.
pub(crate) fn target(data: &[u8]) {
    let Some(file) = stored(data, archive_chunks(data)) else {
        return;
    };
    let open = || Source::open(file.path()).ok();
    let folder = tempfile::tempdir().expect("the host has a folder for files");
    let mut out = Vec::new();
    if let Some(mut source) = open() {
        chrome::write(&mut source, &mut out).expect("memory takes everything");
        let json: Result<serde_json::Value, _> = serde_json::from_slice(&out);
        assert!(json.is_ok(), "what is written is JSON");
        let _ = source.left_out().sentences().count();
    }
    if let Some(mut source) = open() {
        perfetto::write(&mut source, &mut out).expect("memory takes everything");
    }
    // Errors about sizes are expected; only panics are defects.
    if let Some(mut source) = open() {
        let _ = otf2::write(&mut source, folder.path());
    }
    if let Some(mut source) = open() {
        let _ = paraver::write(&mut source, folder.path());
    }
    for encoding in [Encoding::Csv, Encoding::Parquet] {
        if let Some(mut source) = open() {
            let written = tables::write(&mut source, file.path(), folder.path(), encoding);
            written.expect("the host stores files");
        }
    }
}
