//! Tables as comma-separated values (RFC 4180), with a line of names first.
//!
//! All tables are written, even those without rows. Used for each row.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use csv::Writer;

use super::{Cell, ExportTable, Sheets};
use crate::records::{ExportError, failed};

/// The files.
pub(super) struct Csv(BTreeMap<ExportTable, (PathBuf, Writer<File>)>);

impl Csv {
    /// Creates new files in a folder.
    pub(super) fn create(out: &Path) -> Result<Self, ExportError> {
        let mut files = BTreeMap::new();
        for table in ExportTable::ALL {
            let path = out.join(format!("{}.csv", table.name()));
            let file = File::create(&path).map_err(failed(&path))?;
            let mut writer = Writer::from_writer(file);
            let names = table.columns().iter().map(|column| column.name);
            let written = writer.write_record(names);
            written.map_err(|error| failed(&path)(error.into()))?;
            files.insert(table, (path, writer));
        }
        Ok(Self(files))
    }
}

impl Sheets for Csv {
    fn row(&mut self, table: ExportTable, cells: &[Cell<'_>]) -> Result<(), ExportError> {
        let Some((path, writer)) = self.0.get_mut(&table) else {
            return Ok(());
        };
        let mut written = Ok(());
        for cell in cells {
            written = written.and_then(|()| match cell {
                Cell::Empty => writer.write_field(""),
                Cell::Unsigned(value) => writer.write_field(value.to_string()),
                Cell::Signed(value) => writer.write_field(value.to_string()),
                Cell::Text(value) => writer.write_field(value),
            });
        }
        let written = written.and_then(|()| writer.write_record(None::<&[u8]>));
        written.map_err(|error| failed(path)(error.into()))
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        for (path, writer) in self.0.values_mut() {
            writer.flush().map_err(failed(path))?;
        }
        Ok(())
    }
}
