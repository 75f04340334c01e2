//! A trace as tables: one for each kind of record, in a folder, as CSV or Parquet.
//!
//! Rows are written as the trace is read, those of communicators at the end. Numbers in several tables have the same meaning:
//! `call`, `message`, `communicator`, `site`. Unknown values are empty. Used by `belljar trace export`, and by the Python
//! package, which reads rows with `TableReader`.

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

use self::rows::{RowNumbers, RowWriter};
pub use self::schema::{Column, ColumnType, ExportTable};
use crate::records::ExportError;
use crate::records::source::Source;

/// The encoding of tables.
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
    /// Unknown or missing.
    Empty,
    /// A nonnegative number.
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

/// A consumer of rows.
pub trait Sheets {
    /// Adds a row of a table, with as many cells as it has columns.
    ///
    /// # Errors
    /// Returns [`ExportError`] if the row cannot be added.
    fn row(&mut self, table: ExportTable, cells: &[Cell<'_>]) -> Result<(), ExportError>;

    /// Ends the rows.
    ///
    /// # Errors
    /// Returns [`ExportError`] if the rows cannot be stored.
    fn finish(&mut self) -> Result<(), ExportError>;
}

/// Writes the tables of the trace at `trace` into the existing folder `out`.
///
/// # Errors
/// Returns [`ExportError`] if a file cannot be written, or if the file of probes cannot be read.
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
    let mut numbers = RowNumbers::default();
    while next(source, &mut numbers, sheets.as_mut())? {}
    last(source, trace, &mut numbers, sheets.as_mut())?;
    sheets.finish()
}

/// Adds the rows of the next call; returns true if there was one.
fn next(
    source: &mut Source,
    numbers: &mut RowNumbers,
    sheets: &mut dyn Sheets,
) -> Result<bool, ExportError> {
    let Some(call) = source.next_call() else {
        return Ok(false);
    };
    RowWriter { sheets, numbers }.call(source, &call)?;
    Ok(true)
}

/// Adds the rows that are known after all calls.
fn last(
    source: &Source,
    trace: &Path,
    numbers: &mut RowNumbers,
    sheets: &mut dyn Sheets,
) -> Result<(), ExportError> {
    let mut rows = RowWriter { sheets, numbers };
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
    numbers: RowNumbers,
    over: bool,
}

impl TableReader {
    /// Opens the tables of the trace at `trace`.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the file cannot be read as a trace.
    pub fn open(trace: &Path) -> Result<Self, TraceError> {
        Ok(Self {
            trace: trace.to_owned(),
            source: Source::open(trace)?,
            numbers: RowNumbers::default(),
            over: false,
        })
    }

    /// Reads the next rows, of all tables; returns `false` if there are no more.
    ///
    /// # Errors
    /// Returns the errors of `sheets`, and [`ExportError`] if the file of probes cannot be read.
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

    /// Returns the source, with its completeness.
    pub fn source(&self) -> &Source {
        &self.source
    }
}
