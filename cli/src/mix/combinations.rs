//! Lists of values in a mix, and all combinations of them.
//!
//! A list stands for its values in turn. If a key's value is a list itself, a list of lists does. Called by readers of mixes.

use std::path::Path;

use belljar_files::read_input_text;
use belljar_images::toml_error::in_words;
use toml::{Table, Value};

use super::MixFileError;
use crate::sweep::labels;

/// Keys whose value is a list.
const LISTS: [&str; 9] = [
    "snapshots",
    "times",
    "children",
    "parents",
    "dimensions",
    "cct",
    "places",
    "links",
    "pcap",
];

/// Maximum number of combinations.
const MOST: usize = 10_000;

/// A mix with one value for each key.
#[derive(Clone, Debug, PartialEq)]
pub struct Combination {
    /// The keys that vary, with their values as text.
    pub values: Vec<(String, String)>,
    /// The mix.
    pub table: Table,
}

/// A key that varies.
#[derive(Debug)]
struct Axis {
    key: String,
    path: Vec<String>,
    values: Vec<Value>,
    /// The values as text.
    words: Vec<String>,
}

/// All combinations of a mix, each made on demand to save memory.
#[derive(Debug)]
pub struct Combinations {
    table: Table,
    axes: Vec<Axis>,
}

impl Combinations {
    /// Their number.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// The combination of this number; the last key varies fastest.
    pub fn get(&self, number: usize) -> Combination {
        let mut of = Combination {
            values: Vec::with_capacity(self.axes.len()),
            table: self.table.clone(),
        };
        let mut rest = self.len();
        for axis in &self.axes {
            rest /= axis.values.len().max(1);
            let at = number / rest.max(1) % axis.values.len().max(1);
            of.values.push((axis.key.clone(), axis.words[at].clone()));
            put(&mut of.table, &axis.path, axis.values[at].clone());
        }
        of
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Combination> {
        (0..self.len()).map(|number| self.get(number))
    }
}

/// All combinations of the mix in a file.
///
/// # Errors
/// [`MixFileError`] if the file cannot be read, or there are too many.
pub fn combinations(path: &Path) -> Result<Combinations, MixFileError> {
    let text = read_input_text(path).map_err(|error| MixFileError::File {
        path: path.to_owned(),
        reason: format!("cannot be read: {error}"),
    })?;
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| MixFileError::Toml {
            path: path.to_owned(),
            reason: in_words(&error),
        })?;
    of(table)
}

/// All combinations of a mix.
pub(super) fn of(table: Table) -> Result<Combinations, MixFileError> {
    let mut found = Vec::new();
    lists(&Value::Table(table.clone()), &mut Vec::new(), &mut found);
    let (mut axes, mut count) = (Vec::new(), 1usize);
    for (path, values) in found {
        let key = path.join(".");
        if values.is_empty() {
            return Err(MixFileError::Empty { key });
        }
        count = count.saturating_mul(values.len());
        if count > MOST {
            return Err(MixFileError::Many { count, most: MOST });
        }
        let texts: Vec<String> = values.iter().map(Value::to_string).collect();
        let words = labels(&key, &texts);
        axes.push(Axis {
            key,
            path,
            values,
            words,
        });
    }
    Ok(Combinations { table, axes })
}

/// Lists that stand for their values, by their paths.
fn lists(value: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Vec<Value>)>) {
    let key = path.last().map_or("", String::as_str);
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                path.push(key.clone());
                lists(value, path, found);
                path.pop();
            }
        }
        Value::Array(values) if key == "jobs" => {
            for (number, value) in values.iter().enumerate() {
                path.push(number.to_string());
                lists(value, path, found);
                path.pop();
            }
        }
        Value::Array(values) => {
            let of_lists = !values.is_empty() && values.iter().all(Value::is_array);
            if !LISTS.contains(&key) || of_lists {
                found.push((path.clone(), values.clone()));
            }
        }
        _ => {}
    }
}

/// Sets the value at a path.
fn put(table: &mut Table, path: &[String], value: Value) {
    let Some((last, before)) = path.split_last() else {
        return;
    };
    let mut at = table;
    let mut steps = before.iter();
    while let Some(key) = steps.next() {
        let next = match at.get_mut(key) {
            // A group of jobs, by its number.
            Some(Value::Array(groups)) => {
                let number = steps.next().and_then(|number| number.parse().ok());
                number.and_then(|number: usize| groups.get_mut(number))
            }
            next => next,
        };
        match next {
            Some(Value::Table(next)) => at = next,
            _ => return,
        }
    }
    at.insert(last.clone(), value);
}
