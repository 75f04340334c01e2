//! The Rust part of the Python package `belljar`: tables of traces, as Arrow.
//!
//! A table is read from the trace each time that it is requested, in batches and only with the selected columns. It is passed to Python through the Arrow PyCapsule
//! interface, without copies. The rest of the package is Python (`python/belljar`), which loads this module as `belljar._belljar`.

/// Rows of a table as Arrow batches.
mod batches;

use std::path::PathBuf;

use belljar_formats::tables::ExportTable as TableKind;
use belljar_trace::TRACE_FILE;
use pyo3::exceptions::{PyKeyError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};

use batches::Batches;

/// A table of a trace: a kind of record.
#[pyclass(frozen, module = "belljar")]
struct Table {
    trace: PathBuf,
    kind: TableKind,
    /// Indices of its selected columns.
    columns: Vec<usize>,
}

#[pymethods]
impl Table {
    /// Its name.
    #[getter]
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// The names of its columns.
    #[getter]
    fn columns(&self) -> Vec<&'static str> {
        let all = self.kind.columns();
        self.columns.iter().map(|at| all[*at].name).collect()
    }

    /// The table with these columns alone, in this order.
    fn select(&self, columns: Vec<String>) -> PyResult<Self> {
        let all = self.kind.columns();
        let place = |wanted: &String| {
            let at = self.columns.iter().find(|at| all[**at].name == wanted);
            at.copied().ok_or_else(|| {
                let there = self.columns().join(", ");
                PyKeyError::new_err(format!(
                    "{} has no column {wanted:?}; it has {there}",
                    self.name()
                ))
            })
        };
        Ok(Self {
            trace: self.trace.clone(),
            kind: self.kind,
            columns: columns.iter().map(place).collect::<PyResult<_>>()?,
        })
    }

    /// The Arrow PyCapsule interface. The trace is read anew each time.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let (trace, kind, columns) = (&self.trace, self.kind, self.columns.clone());
        let batches = py
            .detach(|| Batches::open(trace, kind, columns))
            .map_err(|error| PyOSError::new_err(error.to_string()))?;
        let field = batches.field();
        let stream = ArrayIterator::new(batches.map(|batch| Ok(Batches::as_array(batch?))), field);
        Ok(to_stream_pycapsule(py, Box::new(stream), requested_schema)?)
    }

    fn __repr__(&self) -> String {
        let (name, columns) = (self.name(), self.columns().join(", "));
        format!(
            "<belljar.Table {name} of {}: {columns}>",
            self.trace.display()
        )
    }
}

/// The names of all tables.
#[pyfunction]
fn table_names() -> Vec<&'static str> {
    TableKind::ALL.into_iter().map(TableKind::name).collect()
}

/// A table of the trace of a run directory, or of a trace file.
#[pyfunction]
fn table(path: PathBuf, name: &str) -> PyResult<Table> {
    let kind = TableKind::ALL.into_iter().find(|kind| kind.name() == name);
    let kind = kind.ok_or_else(|| {
        let names = table_names().join(", ");
        PyKeyError::new_err(format!("no table is called {name:?}; there are {names}"))
    })?;
    let trace = match path.is_dir() {
        true => path.join(TRACE_FILE),
        false => path,
    };
    Ok(Table {
        trace,
        kind,
        columns: (0..kind.columns().len()).collect(),
    })
}

/// The module.
#[pymodule]
fn _belljar(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Table>()?;
    module.add_function(wrap_pyfunction!(table, module)?)?;
    module.add_function(wrap_pyfunction!(table_names, module)?)
}
