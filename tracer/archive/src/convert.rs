//! A trace in another version of the format, with the same calls.
//!
//! Nothing is lost: what the wanted version cannot hold is refused. A trace that breaks off is converted as far
//! as it is whole, and breaks off then. Called by `belljar trace convert`.

use std::fs::{self, File};
use std::path::Path;

use belljar_trace::{Event, TraceError, TraceHeader, TraceState, TraceSummary, VERSION};

use crate::earlier::{ACCOUNTED, EarlierWriter, PLAIN};
use crate::failed;
use crate::header::Contents;
use crate::versions::TraceReader;
use crate::writer::TraceWriter;

enum Output {
    Earlier(EarlierWriter),
    Current(Box<TraceWriter>),
}

impl Output {
    fn over(
        file: File,
        path: &Path,
        header: &TraceHeader,
        contents: Contents,
        version: u16,
    ) -> Result<Self, TraceError> {
        Ok(if version >= VERSION {
            let writer = TraceWriter::over(file, path, header, contents)?;
            Self::Current(Box::new(writer))
        } else {
            let accounted = contents.accounted;
            Self::Earlier(EarlierWriter::over(file, path, header, accounted)?)
        })
    }

    fn push(&mut self, call: Event) -> Result<(), TraceError> {
        match self {
            Self::Earlier(writer) => writer.append(&[call]),
            Self::Current(writer) => writer.push(call),
        }
    }

    /// Ends the file, with a footer if there is a summary.
    fn finish(self, summary: Option<&TraceSummary>) -> Result<(), TraceError> {
        match (self, summary) {
            (Self::Earlier(writer), Some(summary)) => writer.finish(summary),
            (Self::Earlier(mut writer), None) => writer.flush(),
            (Self::Current(writer), Some(summary)) => writer.finish(summary).map(drop),
            (Self::Current(mut writer), None) => writer.flush(),
        }
    }
}

/// Writes the trace at `from` to the new file `to`, in this version of the format: 5 for traces without
/// accounts, 6 for those with, 13 for all. Returns how the trace at `from` ended.
///
/// # Errors
/// [`TraceError`] when one cannot be read or the other not be written (as when it is there already), and when
/// the version cannot hold what the trace tells; no file is left then.
pub fn convert(from: &Path, to: &Path, version: u16) -> Result<TraceState, TraceError> {
    let mut reader = TraceReader::open(from)?;
    let refused = |reason: &str| TraceError::Convert {
        path: from.to_owned(),
        version,
        reason: reason.to_owned(),
    };
    let contents = reader.contents();
    match (version, contents.accounted) {
        (PLAIN | ACCOUNTED, _) if contents.frames > 0 => {
            return Err(refused(
                "it tells where calls were made, which version 13 alone can",
            ));
        }
        (PLAIN, false) | (ACCOUNTED, true) | (VERSION, _) => {}
        (PLAIN, true) => return Err(refused("it tells what time went into: version 6 can, too")),
        (ACCOUNTED, false) => {
            return Err(refused(
                "it does not tell what time went into: take version 5",
            ));
        }
        _ => return Err(refused("that version is not written")),
    }
    let file = File::create_new(to).map_err(|source| failed("create", to, source))?;
    let written = copy(&mut reader, file, to, version, &refused);
    if written.is_err() {
        // What failed is told; that half a file stays would be one more thing.
        let _ = fs::remove_file(to);
    }
    written.map(|()| reader.state().clone())
}

fn copy(
    reader: &mut TraceReader,
    file: File,
    to: &Path,
    version: u16,
    refused: &dyn Fn(&str) -> TraceError,
) -> Result<(), TraceError> {
    let contents = reader.contents();
    let mut output = Output::over(file, to, &reader.header().clone(), contents, version)?;
    for call in reader.by_ref() {
        if version < VERSION && call.accounts.0.is_some() != contents.accounted {
            return Err(refused("only some of its calls tell what time went into"));
        }
        if version < VERSION && call.details.0.is_some() {
            return Err(refused(
                "calls tell displacements, windows or bounds of datatypes, which version 13 alone can",
            ));
        }
        if version < VERSION && call.calls() > 1 {
            return Err(refused(
                "polls are told together, which version 13 alone can: run with --set trace.polls=each",
            ));
        }
        output.push(call)?;
    }
    output.finish(reader.summary())
}
