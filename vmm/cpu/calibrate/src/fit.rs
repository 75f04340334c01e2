//! A processor file from measurements.
//!
//! Fitting depends on the measurements alone. Parameters that no loop isolates keep the values of the base, a built-in
//! file, and are marked in the text. Values whose effect depends on others are chosen by the model: the one with
//! which it is nearest to the measured loop.

use std::collections::{BTreeMap, BTreeSet};

use belljar_pipeline::processor::Processor;
use toml::{Table, Value};

use crate::CalibrateError;
use crate::measure::{Curve, Measurements};

/// The parameters of caches, translation and bandwidth.
mod memory;
/// Parameters by the model.
mod modelled;
/// Parameters of operations by formulas.
mod operations;
/// The text of the file.
mod text;

/// A processor file in the making.
#[derive(Clone, Debug)]
pub struct Fitted {
    table: Table,
    /// Keys with dots that measurements determined.
    measured: BTreeSet<String>,
    /// Contradictions between measurements and CPUID.
    notes: Vec<String>,
}

impl Fitted {
    /// The parameters from `measurements`; the others are those of `base`, the text of a processor file.
    ///
    /// # Errors
    /// [`CalibrateError`] if a measurement is missing or impossible, or the result is no valid file.
    pub fn new(
        name: &str,
        base: &str,
        measurements: &Measurements,
    ) -> Result<Self, CalibrateError> {
        let mut fitted = Self {
            table: base.parse()?,
            measured: BTreeSet::new(),
            notes: Vec::new(),
        };
        fitted.head(name, measurements);
        operations::fit(&mut fitted, measurements)?;
        memory::fit(&mut fitted, measurements)?;
        modelled::fit(&mut fitted, measurements)?;
        Ok(fitted)
    }

    fn head(&mut self, name: &str, measurements: &Measurements) {
        let origin = format!(
            "{}, {:.2} GHz, by belljar calibrate processor",
            measurements.name,
            measurements.megahertz / 1000.0
        );
        self.table.insert("name".to_owned(), name.into());
        self.table.insert("measured".to_owned(), origin.into());
        let level = i64::from(measurements.level);
        self.table.insert("level".to_owned(), level.into());
    }

    /// The processor with the parameters so far.
    ///
    /// # Errors
    /// If they are no valid file.
    pub fn processor(&self) -> Result<Processor, CalibrateError> {
        Ok(Processor::parse("the measured file", &self.text())?)
    }

    /// The file's text.
    pub fn text(&self) -> String {
        text::written(&self.table, &self.measured, &self.notes)
    }

    /// Contradictions between measurements and CPUID.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Measured parameters that differ from those of `other`, by key: the file's value, and the other one.
    pub fn differences(&self, other: &Table) -> BTreeMap<String, (i64, Option<i64>)> {
        let differs = |key: &String| {
            let (own, other) = (number(&self.table, key)?, number(other, key));
            (other != Some(own)).then(|| (key.clone(), (own, other)))
        };
        self.measured.iter().filter_map(differs).collect()
    }

    /// Sets the measured value of a key of two or three parts.
    fn set(&mut self, key: &str, value: f64) {
        self.measured.insert(key.to_owned());
        self.put(key, value.round().max(0.0) as i64);
    }

    /// Sets the value of a key of two or three parts.
    fn put(&mut self, key: &str, value: i64) {
        let mut table = &mut self.table;
        let mut parts: Vec<&str> = key.split('.').collect();
        let Some(last) = parts.pop() else {
            return;
        };
        for part in parts {
            let entry = table
                .entry(part)
                .or_insert_with(|| Value::Table(Table::new()));
            if !entry.is_table() {
                *entry = Value::Table(Table::new());
            }
            let Value::Table(inner) = entry else {
                return;
            };
            table = inner;
        }
        table.insert(last.to_owned(), value.into());
    }

    /// Removes an entry of a table.
    fn remove(&mut self, table: &str, entry: &str) {
        if let Some(Value::Table(entries)) = self.table.get_mut(table) {
            entries.remove(entry);
        }
    }

    /// The present value of a key.
    fn get(&self, key: &str) -> f64 {
        number(&self.table, key).unwrap_or_default() as f64
    }
}

/// The number at a key with dots.
fn number(table: &Table, key: &str) -> Option<i64> {
    let mut parts = key.split('.');
    let first = table.get(parts.next()?)?;
    parts
        .try_fold(first, |value, part| value.get(part))?
        .as_integer()
}

/// The cycles of a loop.
fn of(measurements: &Measurements, name: &str) -> Result<f64, CalibrateError> {
    let found = measurements.loops.get(name).copied();
    match found {
        Some(cycles) if cycles.is_finite() && cycles > 0.0 => Ok(cycles),
        other => Err(CalibrateError::Measurement {
            name: name.to_owned(),
            value: other.map_or_else(|| "missing".to_owned(), |cycles| cycles.to_string()),
        }),
    }
}

/// The cycles at the smallest size of a curve that is at least `size`; at its last one, if none is.
fn at(curve: &Curve, name: &str, size: u32) -> Result<f64, CalibrateError> {
    let found = curve.iter().find(|(one, _)| *one >= size).or(curve.last());
    match found {
        Some((_, cycles)) if cycles.is_finite() && *cycles > 0.0 => Ok(*cycles),
        other => Err(CalibrateError::Measurement {
            name: format!("{name} at {size}"),
            value: other.map_or_else(|| "missing".to_owned(), |(_, cycles)| cycles.to_string()),
        }),
    }
}

/// The largest size of a curve before the first one that takes more than `most` cycles, and that first one.
fn edge(curve: &Curve, most: f64) -> (Option<u32>, Option<u32>) {
    let first = curve.iter().position(|(_, cycles)| *cycles > most);
    let before = match first {
        Some(0) => None,
        Some(at) => Some(curve[at - 1].0),
        None => curve.last().map(|(size, _)| *size),
    };
    (before, first.map(|at| curve[at].0))
}

#[cfg(test)]
mod tests;
