//! Lists of values in a mix, and all combinations of them.
//!
//! A list stands for its values in turn, but where a key's value is a list itself: there a list of lists does. Called by who reads a mix.

use std::fs;
use std::path::Path;

use toml::{Table, Value};

use super::MixFileError;
use crate::sweep::labels;

/// Keys whose value is a list.
const LISTS: [&str; 8] = [
    "snapshots",
    "times",
    "children",
    "parents",
    "dimensions",
    "places",
    "links",
    "pcap",
];

/// More combinations than anybody waits for.
const MOST: usize = 10_000;

/// A mix with one value for each key.
#[derive(Clone, Debug, PartialEq)]
pub struct Combination {
    /// The keys that vary, with their values as text.
    pub values: Vec<(String, String)>,
    /// The mix.
    pub table: Table,
}

/// All combinations of the mix in a file.
///
/// # Errors
/// [`MixFileError`] when the file cannot be read, or there are too many.
pub fn combinations(path: &Path) -> Result<Vec<Combination>, MixFileError> {
    let text = fs::read_to_string(path).map_err(|error| MixFileError::File {
        path: path.to_owned(),
        reason: format!("cannot be read: {error}"),
    })?;
    let table: Table = text.parse().map_err(|source| MixFileError::Toml {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    of(table)
}

/// All combinations of a mix.
pub(super) fn of(table: Table) -> Result<Vec<Combination>, MixFileError> {
    let mut found = Vec::new();
    lists(&Value::Table(table.clone()), &mut Vec::new(), &mut found);
    let mut all = vec![Combination {
        values: Vec::new(),
        table,
    }];
    for (path, values) in found {
        let key = path.join(".");
        if values.is_empty() {
            return Err(MixFileError::Empty { key });
        }
        let count = all.len().saturating_mul(values.len());
        if count > MOST {
            return Err(MixFileError::Many { count, most: MOST });
        }
        let words = labels(
            &key,
            &values.iter().map(Value::to_string).collect::<Vec<_>>(),
        );
        let with = |before: &Combination| {
            let one = |(value, word): (&Value, &String)| {
                let mut next = before.clone();
                next.values.push((key.clone(), word.clone()));
                put(&mut next.table, &path, value.clone());
                next
            };
            values.iter().zip(&words).map(one).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all)
}

/// Lists that stand for their values, by where they are.
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

/// Puts a value where a path leads.
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
