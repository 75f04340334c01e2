//! The table of all combinations as Apache Parquet.
//!
//! Keys that vary are texts, figures numbers; every row has a value in each column. Called by `simulate`.

use std::sync::Arc;

use anyhow::{Context, Result};
use belljar_files::{Folder, OutputFile};
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::{Map, Value};

use super::SimulationRow;

/// A column.
enum Column {
    Texts(Vec<ByteArray>),
    Counts(Vec<i64>),
    Numbers(Vec<f64>),
}

impl Column {
    /// The values called `name` of all rows, as counts if all are counts.
    fn figures(name: &str, rows: &[Map<String, Value>]) -> Self {
        let all: Vec<&Value> = rows.iter().filter_map(|row| row.get(name)).collect();
        match all.iter().all(|value| value.is_i64() || value.is_u64()) {
            true => Self::Counts(
                all.iter()
                    .map(|it| it.as_i64().unwrap_or(i64::MAX))
                    .collect(),
            ),
            false => Self::Numbers(
                all.iter()
                    .map(|it| it.as_f64().unwrap_or(f64::NAN))
                    .collect(),
            ),
        }
    }

    fn field(&self, name: &str) -> Result<Type> {
        let (physical, converted) = match self {
            Self::Texts(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            Self::Counts(_) => (Physical::INT64, ConvertedType::INT_64),
            Self::Numbers(_) => (Physical::DOUBLE, ConvertedType::NONE),
        };
        let field = Type::primitive_type_builder(name, physical);
        let field = field.with_repetition(Repetition::REQUIRED);
        Ok(field.with_converted_type(converted).build()?)
    }
}

/// Writes the table of all combinations.
pub(super) fn table(
    folder: &Folder,
    name: &str,
    keys: &[String],
    rows: &[SimulationRow],
) -> Result<()> {
    let figures = rows
        .iter()
        .map(|row| match serde_json::to_value(row.measures)? {
            Value::Object(figures) => Ok(figures),
            _ => anyhow::bail!("measures are no object"),
        });
    let figures: Vec<Map<String, Value>> = figures.collect::<Result<_>>()?;
    let mut columns: Vec<(String, Column)> = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let text = |row: &SimulationRow| row.values.get(at).map_or("", |(_, value)| value).into();
        columns.push((key.clone(), Column::Texts(rows.iter().map(text).collect())));
    }
    for name in figures.first().into_iter().flat_map(Map::keys) {
        columns.push((name.clone(), Column::figures(name, &figures)));
    }
    let file = OutputFile::create_in(folder, name)?;
    write(file, &columns)
        .with_context(|| format!("cannot write {}", folder.path().join(name).display()))
}

fn write(file: OutputFile, columns: &[(String, Column)]) -> Result<()> {
    let fields = columns.iter();
    let fields = fields.map(|(name, column)| Ok(Arc::new(column.field(name)?)));
    let schema = Type::group_type_builder("results");
    let schema = schema.with_fields(fields.collect::<Result<_>>()?).build()?;
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), properties)?;
    let mut group = writer.next_row_group()?;
    for (_, column) in columns {
        let Some(mut to) = group.next_column()? else {
            break;
        };
        match column {
            Column::Texts(all) => to.typed::<ByteArrayType>().write_batch(all, None, None)?,
            Column::Counts(all) => to.typed::<Int64Type>().write_batch(all, None, None)?,
            Column::Numbers(all) => to.typed::<DoubleType>().write_batch(all, None, None)?,
        };
        to.close()?;
    }
    group.close()?;
    Ok(writer.into_inner()?.finish()?)
}
