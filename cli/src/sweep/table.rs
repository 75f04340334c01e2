//! The table of a sweep: a row for each combination, including failed ones.
//!
//! It is made from the runs' files. A missing or incomplete file leaves a cell empty and is no error.
//! Called by `belljar sweep`, which prints the table and writes it as CSV.

use std::fmt;
use std::path::{Path, PathBuf};

use belljar_files::read_input_text;
use belljar_sim::figures::decimal;
use serde_json::Value;

use super::Sweep;

/// Picoseconds in a second.
const SECOND: u64 = 1_000_000_000_000;

/// The known end of a combination's command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutcome {
    /// The exit code; the workload's code if the workload ended.
    pub code: Option<i32>,
    /// A word for commands without a result.
    pub ending: String,
}

/// The table.
#[derive(Debug)]
pub struct SweepTable {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// The heads of the columns after the keys that vary.
const HEADS: [&str; 6] = [
    "exit_code",
    "ending",
    "virtual_seconds",
    "mpi_calls",
    "host_seconds",
    "directory",
];

impl SweepTable {
    /// Gathers the results of the runs of `sweep`, and the known ends of their commands. The run of
    /// combination N is in `directory(N)` or `directory(N).incomplete`.
    pub fn gather(
        sweep: &Sweep,
        directory: impl Fn(usize) -> PathBuf,
        outcome: impl Fn(usize) -> CommandOutcome,
    ) -> Self {
        let heads = sweep.keys.iter().map(String::as_str).chain(HEADS);
        let row = |(index, values): (usize, Vec<String>)| {
            let results = results(&directory(index), outcome(index));
            values.into_iter().chain(results).collect()
        };
        Self {
            heads: heads.map(str::to_owned).collect(),
            rows: sweep.labels().into_iter().enumerate().map(row).collect(),
        }
    }

    /// A list of objects: values of keys as texts, numbers as numbers, unknown values as null.
    pub fn json(&self) -> Value {
        let keys = self.heads.len() - HEADS.len();
        let rows = self.rows.iter().map(|cells| {
            let cells = cells.iter().enumerate();
            let values = cells.map(|(column, cell)| match column < keys {
                true => Value::from(cell.as_str()),
                false => value(cell),
            });
            Value::Object(self.heads.iter().cloned().zip(values).collect())
        });
        Value::Array(rows.collect())
    }

    /// As comma-separated values (RFC 4180), with a line of heads.
    pub fn csv(&self) -> String {
        let lines = std::iter::once(&self.heads).chain(&self.rows);
        let line = |cells: &Vec<String>| {
            let fields: Vec<String> = cells.iter().map(|cell| field(cell)).collect();
            format!("{}\r\n", fields.join(","))
        };
        lines.map(line).collect()
    }

    /// The number of combinations without exit code 0.
    pub fn failures(&self) -> usize {
        let place = self.heads.len() - HEADS.len();
        let failed = |row: &&Vec<String>| row[place] != "0";
        self.rows.iter().filter(failed).count()
    }
}

impl fmt::Display for SweepTable {
    /// Text in columns.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || std::iter::once(&self.heads).chain(&self.rows);
        let width = |column: usize| {
            let widths = lines().map(|cells| cells[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        for cells in lines() {
            let padded = cells.iter().zip(&widths);
            let padded: Vec<String> = padded
                .map(|(cell, &width)| format!("{cell:<width$}"))
                .collect();
            writeln!(to, "{}", padded.join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// A cell as a value of JSON.
fn value(cell: &str) -> Value {
    match (cell.parse::<i64>(), cell.parse::<f64>()) {
        _ if cell.is_empty() => Value::Null,
        (Ok(number), _) => Value::from(number),
        (_, Ok(number)) => Value::from(number),
        _ => Value::from(cell),
    }
}

/// The cells after the keys.
fn results(directory: &Path, outcome: CommandOutcome) -> [String; HEADS.len()] {
    let mut name = directory.as_os_str().to_owned();
    name.push(".incomplete");
    let broken = PathBuf::from(name);
    let is_whole = !broken.is_dir();
    let directory = if is_whole { directory } else { &broken };
    let (summary, host) = (
        read(&directory.join("summary.json")),
        read(&directory.join("host.json")),
    );
    // The workload's exit code does not count if the run's files could not be kept.
    let workload = summary["exit_code"].as_i64().filter(|_| is_whole);
    let workload = workload.map(|code| code.to_string());
    let code = outcome.code.map(|code| code.to_string());
    let ending = summary["ending"].as_str().map(str::to_owned);
    let calls = summary["mpi_calls"].as_u64();
    [
        workload.or(code).unwrap_or_default(),
        ending.unwrap_or(outcome.ending),
        summary["virtual_time_ps"]
            .as_u64()
            .map_or_else(String::new, seconds),
        calls.map_or_else(String::new, |calls| calls.to_string()),
        host["seconds"]
            .as_f64()
            .map_or_else(String::new, |seconds| decimal(seconds, 3)),
        if directory.is_dir() {
            directory.display().to_string()
        } else {
            String::new()
        },
    ]
}

/// A file of a run; null if it is absent or incomplete.
fn read(path: &Path) -> Value {
    let text = read_input_text(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Exact, as a run's time is.
fn seconds(picoseconds: u64) -> String {
    format!("{}.{:012}", picoseconds / SECOND, picoseconds % SECOND)
}

fn field(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_combination_is_a_row_whatever_became_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "0/summary.json",
            r#"{"exit_code":0,"ending":"well, \"done\"","virtual_time_ps":1500000000007,"mpi_calls":3}"#,
        );
        put("0/host.json", r#"{"seconds":2.0004}"#);
        // Its workload succeeded, but its disk was full.
        put(
            "1.incomplete/summary.json",
            r#"{"exit_code":0,"ending":"limit"}"#,
        );
        let sweep = Sweep::parse(&["k=[\"a,b\", c, 3]".to_owned()]).unwrap();
        let outcome = |index| CommandOutcome {
            code: [None, Some(1), None][index],
            ending: "TIMEOUT".to_owned(),
        };
        let at = |index: usize| folder.path().join(index.to_string());
        let table = SweepTable::gather(&sweep, at, outcome);
        let at = folder.path().display();
        let expected = format!(
            "k,exit_code,ending,virtual_seconds,mpi_calls,host_seconds,directory\r\n\
             \"a,b\",0,\"well, \"\"done\"\"\",1.500000000007,3,2.000,{at}/0\r\n\
             c,1,limit,,,,{at}/1.incomplete\r\n\
             3,,TIMEOUT,,,,\r\n"
        );
        assert_eq!(table.csv(), expected);
        assert_eq!(table.failures(), 2);
        let rows = table.json();
        assert_eq!(rows[0]["k"], "a,b");
        assert_eq!(rows[0]["exit_code"], 0);
        assert_eq!(rows[0]["virtual_seconds"], 1.500000000007);
        assert_eq!(rows[2]["k"], "3");
        assert_eq!(rows[2]["exit_code"], Value::Null);
        assert!(table.to_string().lines().count() == 4);
    }
}
