//! Formats that are written while the trace is read, in constant memory.
//!
//! Losses of a format, and the end of a damaged trace, are reported once at the end. Called by `export`.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use belljar_formats::tables::{self, Encoding};
use belljar_formats::{ExportError, Source};

use super::{file, folder};
use crate::command::results::trace::remark;

/// A format that is a folder.
pub(super) fn write_folder(
    trace: &Path,
    out: &Path,
    write: impl FnOnce(&mut Source, &Path) -> Result<(), ExportError>,
) -> Result<()> {
    let mut source = Source::open(trace)?;
    let unfinished = folder(out)?;
    write(&mut source, unfinished.path())?;
    unfinished.finish()?;
    say(&mut source);
    Ok(())
}

/// `--format csv` and `--format parquet`: a folder with a file for each table.
pub(super) fn write_tables(trace: &Path, out: &Path, encoding: Encoding) -> Result<()> {
    let mut source = Source::open(trace)?;
    let unfinished = folder(out)?;
    tables::write(&mut source, trace, unfinished.path(), encoding)?;
    unfinished.finish()?;
    say(&mut source);
    Ok(())
}

/// A format that is one file.
pub(super) fn write_file(
    trace: &Path,
    out: &Path,
    write: impl FnOnce(&mut Source, &mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let mut source = Source::open(trace)?;
    file(out, |out| write(&mut source, out))?;
    say(&mut source);
    Ok(())
}

/// Reports data that the format cannot represent, and the end of a damaged trace.
fn say(source: &mut Source) {
    for (count, what) in source.left_out().sentences() {
        note!("note: {count} {what}");
    }
    remark(source.state());
}
