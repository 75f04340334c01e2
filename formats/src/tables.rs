//! A trace as tables: one for each kind of record, in a folder, as CSV or Parquet.
//!
//! Rows are written as the trace is read, those of communicators at the end. Numbers that stand in several tables name the same
//! thing: `call`, `message`, `communicator`, `site`. What is not known is empty. Called by `belljar trace export`, and by the
//! Python package, which takes rows by `TableReader`.

/// Comma-separated values.
mod csv;
/// Apache Parquet.
mod parquet;
/// Rows of calls.
mod rows;
/// Tables and their columns.
mod schema;

use std::path::{Path, PathBuf};

use belljar_archive::ProbesReader;
use belljar_trace::{PROBES_FILE, TraceError};

use self::rows::{Numbers, Rows};
pub use self::schema::{Column, Kind, Table};
use crate::records::ExportError;
use crate::records::source::Source;

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
pub enum Cell<'a> {
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
pub trait Sheets {
    /// A row of a table, with as many cells as it has columns.
    ///
    /// # Errors
    /// [`ExportError`] when it cannot be taken.
    fn row(&mut self, table: Table, cells: &[Cell<'_>]) -> Result<(), ExportError>;

    /// No more rows come.
    ///
    /// # Errors
    /// [`ExportError`] when what was taken cannot be kept.
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
    let mut numbers = Numbers::default();
    while next(source, &mut numbers, sheets.as_mut())? {}
    last(source, trace, &mut numbers, sheets.as_mut())?;
    sheets.finish()
}

/// The rows of the next call; whether there was one.
fn next(
    source: &mut Source,
    numbers: &mut Numbers,
    sheets: &mut dyn Sheets,
) -> Result<bool, ExportError> {
    let Some(call) = source.next_call() else {
        return Ok(false);
    };
    Rows { sheets, numbers }.call(source, &call)?;
    Ok(true)
}

/// The rows that are known when all calls were seen.
fn last(
    source: &Source,
    trace: &Path,
    numbers: &mut Numbers,
    sheets: &mut dyn Sheets,
) -> Result<(), ExportError> {
    let mut rows = Rows { sheets, numbers };
    rows.communicators(source.places())?;
    let probes = trace.with_file_name(PROBES_FILE);
    if probes.exists() {
        let mut reader = ProbesReader::open(&probes)?;
        rows.probes(&mut reader)?;
    }
    Ok(())
}

/// Reads the tables of a trace, some rows at a time.
#[derive(Debug)]
pub struct TableReader {
    trace: PathBuf,
    source: Source,
    numbers: Numbers,
    over: bool,
}

impl TableReader {
    /// Those of the trace at `trace`.
    ///
    /// # Errors
    /// [`TraceError`] when the file cannot be read as a trace.
    pub fn open(trace: &Path) -> Result<Self, TraceError> {
        Ok(Self {
            trace: trace.to_owned(),
            source: Source::open(trace)?,
            numbers: Numbers::default(),
            over: false,
        })
    }

    /// The next rows, of all tables; `false` when there were no more.
    ///
    /// # Errors
    /// Those of `sheets`, and [`ExportError`] when the file of probes cannot be read.
    pub fn read(&mut self, sheets: &mut dyn Sheets) -> Result<bool, ExportError> {
        if self.over {
            return Ok(false);
        }
        if !next(&mut self.source, &mut self.numbers, sheets)? {
            self.over = true;
            last(&self.source, &self.trace, &mut self.numbers, sheets)?;
        }
        Ok(true)
    }

    /// What was read, and whether it is all that there is.
    pub fn source(&self) -> &Source {
        &self.source
    }
}
