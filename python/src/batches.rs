//! Rows of a table as Arrow batches.
//!
//! Rows come as the trace is read, one call at a time; a batch is complete when it has enough rows, which bounds memory. Called by the class `Table`.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use belljar_formats::ExportError;
use belljar_formats::tables::{Cell, ColumnType, ExportTable, Sheets, TableReader};
use belljar_trace::TraceError;

/// Limit on the rows of a batch, apart from the last call's rows.
const ROWS: usize = 1 << 16;

/// A column that is being built.
enum ColumnBuilder {
    Unsigned(UInt64Builder),
    Signed(Int64Builder),
    Text(StringBuilder),
}

impl ColumnBuilder {
    fn new(kind: ColumnType) -> Self {
        match kind {
            ColumnType::Unsigned => Self::Unsigned(UInt64Builder::new()),
            ColumnType::Signed => Self::Signed(Int64Builder::new()),
            ColumnType::Text => Self::Text(StringBuilder::new()),
        }
    }

    fn take(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Self::Unsigned(all), Cell::Unsigned(value)) => all.append_value(value),
            (Self::Unsigned(all), _) => all.append_null(),
            (Self::Signed(all), Cell::Signed(value)) => all.append_value(value),
            (Self::Signed(all), _) => all.append_null(),
            (Self::Text(all), Cell::Text(value)) => all.append_value(value),
            (Self::Text(all), _) => all.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Unsigned(all) => Arc::new(all.finish()),
            Self::Signed(all) => Arc::new(all.finish()),
            Self::Text(all) => Arc::new(all.finish()),
        }
    }
}

/// The selected columns of a table.
struct Columns {
    table: ExportTable,
    wanted: Vec<(usize, ColumnBuilder)>,
    rows: usize,
}

impl Sheets for Columns {
    fn row(&mut self, table: ExportTable, cells: &[Cell<'_>]) -> Result<(), ExportError> {
        if table == self.table {
            self.rows += 1;
            for (at, builder) in &mut self.wanted {
                builder.take(cells.get(*at).copied().unwrap_or(Cell::Empty));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        Ok(())
    }
}

/// A table's batches.
pub(crate) struct Batches {
    reader: TableReader,
    columns: Columns,
    schema: SchemaRef,
}

impl Batches {
    /// Opens a table of the trace at `trace`, with these columns by index.
    pub(crate) fn open(
        trace: &Path,
        table: ExportTable,
        columns: Vec<usize>,
    ) -> Result<Self, TraceError> {
        let all = table.columns();
        let field = |at: &usize| {
            let column = all[*at];
            let kind = match column.kind {
                ColumnType::Unsigned => DataType::UInt64,
                ColumnType::Signed => DataType::Int64,
                ColumnType::Text => DataType::Utf8,
            };
            Field::new(column.name, kind, true)
        };
        let fields: Fields = columns.iter().map(field).collect();
        let builder = |at: usize| (at, ColumnBuilder::new(all[at].kind));
        Ok(Self {
            reader: TableReader::open(trace)?,
            columns: Columns {
                table,
                wanted: columns.into_iter().map(builder).collect(),
                rows: 0,
            },
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The type of a batch as an array.
    pub(crate) fn field(&self) -> FieldRef {
        let kind = DataType::Struct(self.schema.fields().clone());
        Arc::new(Field::new("", kind, false))
    }

    /// A batch as an array of structures, as in Arrow streams.
    pub(crate) fn as_array(batch: RecordBatch) -> ArrayRef {
        Arc::new(StructArray::from(batch))
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while self.columns.rows < ROWS {
            let read = self.reader.read(&mut self.columns);
            if !read.map_err(|error| ArrowError::ExternalError(Box::new(error)))? {
                break;
            }
        }
        let rows = std::mem::take(&mut self.columns.rows);
        if rows == 0 {
            return Ok(None);
        }
        let arrays = self.columns.wanted.iter_mut();
        let arrays = arrays.map(|(_, builder)| builder.finish()).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).map(Some)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}
