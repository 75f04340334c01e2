//! Formats of other tools: readers that build a trace, and writers that export one.
//!
//! | module | format | reader | writer |
//! |---|---|---|---|
//! | [`otf2`] | Open Trace Format 2 | yes | yes |
//! | [`goal`] | GOAL schedules of LogGOPSim and ATLAHS, text and binary | yes | yes |
//! | [`ti`] | time-independent traces of SimGrid | yes | yes |
//! | [`paraver`] | Paraver's traces | | yes |
//! | [`perfetto`] | Perfetto's protobuf | | yes |
//! | [`chrome`] | JSON of Chromium's trace viewer | | yes |
//! | [`tables`] | CSV and Parquet | | yes |
//!
//! The writers of OTF2, Paraver, Perfetto, Chromium and tables read a [`Source`], which iterates over a trace's calls. The writers of GOAL and TI read [`Messages`], a
//! [`Program`](belljar_program::Program) as each rank's sends, receives and waits. [`import`] chooses a reader by the content of a file. Files are untrusted: each error
//! names the file and the position. Used by `belljar trace import`, `trace export` and `report`, and by the Python package. SST's Ember has the crate `belljar-ember`.

mod builder;
pub mod chrome;
mod detect;
mod format;
pub mod goal;
pub mod messages;
pub mod otf2;
pub mod paraver;
pub mod perfetto;
mod records;
pub mod tables;
pub mod ti;

use std::path::Path;

pub use builder::{ImportError, Imported, Rates};
pub use format::Format;
pub use messages::Messages;
pub use records::{
    Collected, ExportError, ExportedCall, ExportedCommunicator, ExportedMessage, ExportedThread,
    LeftOut, Other, Places, Record, Root, Source, Window,
};

/// Writes a trace of the file at `path` to `out`, a new file, under the name `name`. Without `format`, the content decides. Temporary files are created in the folder of
/// `out`.
///
/// # Errors
/// Returns [`ImportError`] if a file cannot be read or is damaged, or if the trace cannot be written.
pub fn import(
    path: &Path,
    format: Option<Format>,
    rates: Rates,
    out: &Path,
    name: &str,
) -> Result<Imported, ImportError> {
    let format = match format {
        Some(format) => format,
        None => Format::of(path)?,
    };
    let mut imported = match format {
        Format::Otf2 => otf2::reader::import(path, out, name),
        Format::Goal => goal::reader::import(path, out, name),
        Format::Ti => ti::reader::import(path, rates, out, name),
    }?;
    if imported.end_ps == u64::MAX {
        let path = path.to_owned();
        return Err(ImportError::Late { path });
    }
    if imported.calls == 0 {
        let none = "it has no call of MPI, so there is nothing to analyse or to replay";
        imported.notes.push(none.to_owned());
    }
    Ok(imported)
}
