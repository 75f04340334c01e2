//! Tables as Apache Parquet.
//!
//! Rows are collected by column and written in groups, so that memory holds a group of each table. All columns are optional. Used for each
//! row.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::{Cell, ColumnType, ExportTable, Sheets};
use crate::records::{ExportError, failed};

/// Number of rows in a group.
const GROUP: usize = 1 << 16;

/// The values of a column, and the rows that have one.
enum ColumnValues {
    Numbers(Vec<i64>),
    Texts(Vec<ByteArray>),
}

/// A column of a row group.
struct ColumnChunk {
    values: ColumnValues,
    /// 1 for each row with a value, else 0.
    there: Vec<i16>,
}

/// The file of a table.
struct Sheet {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: Vec<ColumnChunk>,
}

/// The files.
pub(super) struct Parquet(BTreeMap<ExportTable, Sheet>);

fn unencoded(path: &Path) -> impl FnOnce(ParquetError) -> ExportError {
    let path = path.to_owned();
    move |error| match error {
        // The error of the disk.
        ParquetError::External(error) => ExportError::Output {
            path,
            source: std::io::Error::other(error),
        },
        error => ExportError::Table {
            path,
            reason: error.to_string(),
        },
    }
}

/// Returns the schema of a table.
fn schema(table: ExportTable) -> Result<Arc<Type>, ParquetError> {
    let mut fields = Vec::new();
    for column in table.columns() {
        let (physical, converted) = match column.kind {
            ColumnType::Unsigned => (Physical::INT64, ConvertedType::UINT_64),
            ColumnType::Signed => (Physical::INT64, ConvertedType::INT_64),
            ColumnType::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        };
        let field = Type::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_converted_type(converted);
        fields.push(Arc::new(field.build()?));
    }
    let group = Type::group_type_builder(table.name()).with_fields(fields);
    Ok(Arc::new(group.build()?))
}

impl Parquet {
    /// Creates new files in a folder.
    pub(super) fn create(out: &Path) -> Result<Self, ExportError> {
        let mut sheets = BTreeMap::new();
        for table in ExportTable::ALL {
            let path = out.join(format!("{}.parquet", table.name()));
            let file = File::create(&path).map_err(failed(&path))?;
            let properties = Arc::new(WriterProperties::builder().build());
            let writer = schema(table)
                .and_then(|schema| SerializedFileWriter::new(file, schema, properties))
                .map_err(unencoded(&path))?;
            let columns = table.columns().iter().map(|column| ColumnChunk {
                values: match column.kind {
                    ColumnType::Text => ColumnValues::Texts(Vec::new()),
                    _ => ColumnValues::Numbers(Vec::new()),
                },
                there: Vec::new(),
            });
            let columns = columns.collect();
            sheets.insert(
                table,
                Sheet {
                    path,
                    writer,
                    columns,
                },
            );
        }
        Ok(Self(sheets))
    }
}

impl ColumnChunk {
    fn push(&mut self, cell: Cell<'_>) {
        let there = match (&mut self.values, cell) {
            (ColumnValues::Numbers(values), Cell::Unsigned(value)) => {
                values.push(value as i64);
                true
            }
            (ColumnValues::Numbers(values), Cell::Signed(value)) => {
                values.push(value);
                true
            }
            (ColumnValues::Texts(values), Cell::Text(value)) => {
                values.push(ByteArray::from(value));
                true
            }
            _ => false,
        };
        self.there.push(there.into());
    }
}

impl Sheet {
    /// Writes the collected rows as a group.
    fn write(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column()? else {
                break;
            };
            let there = Some(&column.there[..]);
            match &mut column.values {
                ColumnValues::Numbers(values) => {
                    writer
                        .typed::<Int64Type>()
                        .write_batch(values, there, None)?;
                    values.clear();
                }
                ColumnValues::Texts(values) => {
                    writer
                        .typed::<ByteArrayType>()
                        .write_batch(values, there, None)?;
                    values.clear();
                }
            }
            column.there.clear();
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.there.len())
    }
}

impl Sheets for Parquet {
    fn row(&mut self, table: ExportTable, cells: &[Cell<'_>]) -> Result<(), ExportError> {
        let Some(sheet) = self.0.get_mut(&table) else {
            return Ok(());
        };
        for (column, cell) in sheet.columns.iter_mut().zip(cells) {
            column.push(*cell);
        }
        match sheet.rows() >= GROUP {
            true => sheet.write().map_err(unencoded(&sheet.path)),
            false => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        for sheet in self.0.values_mut() {
            let rows = sheet.rows();
            let ended = if rows > 0 { sheet.write() } else { Ok(()) };
            let ended = ended.and_then(|()| sheet.writer.finish().map(drop));
            ended.map_err(unencoded(&sheet.path))?;
        }
        Ok(())
    }
}
