//! A trace as tables: one for each kind of record, in a folder, as CSV or Parquet.
//!
//! Rows are written as the trace is read, those of communicators at the end. Numbers that stand in several tables name the same
//! thing: `call`, `message`, `communicator`, `site`. What is not known is empty. Called by `belljar trace export`.

/// Comma-separated values.
mod csv;
/// Apache Parquet.
mod parquet;
/// Rows of calls.
mod rows;
/// Tables and their columns.
mod schema;

use std::path::Path;

use belljar_archive::ProbesReader;
use belljar_trace::PROBES_FILE;

use self::rows::Rows;
pub use self::schema::{Column, Kind, Table};
use crate::ExportError;
use crate::source::Source;

/// How tables are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Comma-separated values with a line of names.
    Csv,
    /// Apache Parquet.
    Parquet,
}

/// A value in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell<'a> {
    /// Not known, or not there.
    Empty,
    /// A number that is not negative.
    Unsigned(u64),
    /// A number.
    Signed(i64),
    /// A text.
    Text(&'a str),
}

impl From<Option<u64>> for Cell<'_> {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::Empty, Self::Unsigned)
    }
}

impl From<u64> for Cell<'_> {
    fn from(value: u64) -> Self {
        Self::Unsigned(value)
    }
}

impl From<u32> for Cell<'_> {
    fn from(value: u32) -> Self {
        Self::Unsigned(value.into())
    }
}

/// Takes rows.
trait Sheets {
    /// A row of a table, with as many cells as it has columns.
    fn row(&mut self, table: Table, cells: &[Cell<'_>]) -> Result<(), ExportError>;

    /// No more rows come.
    fn finish(&mut self) -> Result<(), ExportError>;
}

/// Writes the tables of the trace at `trace` into the folder `out`, which is there.
///
/// # Errors
/// [`ExportError`] when a file cannot be written, or the file of probes cannot be read.
pub fn write(
    source: &mut Source,
    trace: &Path,
    out: &Path,
    encoding: Encoding,
) -> Result<(), ExportError> {
    let mut sheets: Box<dyn Sheets> = match encoding {
        Encoding::Csv => Box::new(csv::Csv::create(out)?),
        Encoding::Parquet => Box::new(parquet::Parquet::create(out)?),
    };
    let mut rows = Rows::new(sheets.as_mut());
    while let Some(call) = source.next_call() {
        rows.call(source, &call)?;
    }
    rows.communicators(source.places())?;
    let probes = trace.with_file_name(PROBES_FILE);
    if probes.exists() {
        let mut reader = ProbesReader::open(&probes)?;
        rows.probes(&mut reader)?;
    }
    sheets.finish()
}
