//! The text of a processor file.
//!
//! Tables stand in the order in which people read them; a line without a measured key is marked. `fit` calls it.

use std::collections::BTreeSet;
use std::fmt::Write;

use toml::{Table, Value};

/// Tables, from the core outwards.
const TABLES: [&str; 9] = [
    "core", "memory", "string", "caches", "tlb", "prefetch", "overlap", "ports", "classes",
];

pub(super) fn written(table: &Table, measured: &BTreeSet<String>, notes: &[String]) -> String {
    let mut text = String::from(
        "# Written by `belljar calibrate processor`. Lines marked \"not measured\" have the values of a built-in file.\n",
    );
    for note in notes {
        let _ = writeln!(text, "# {note}");
    }
    for key in ["name", "measured", "level"] {
        if let Some(value) = table.get(key) {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
    for name in TABLES {
        let Some(Value::Table(entries)) = table.get(name) else {
            continue;
        };
        let _ = writeln!(text, "\n[{name}]");
        for (key, value) in entries {
            let (value, known) = entry(&format!("{name}.{key}"), value, measured);
            let mark = if known { "" } else { "   # not measured" };
            let _ = writeln!(text, "{key} = {value}{mark}");
        }
    }
    text
}

/// A value on one line, and whether it or a part of it was measured.
fn entry(key: &str, value: &Value, measured: &BTreeSet<String>) -> (String, bool) {
    let Value::Table(parts) = value else {
        return (value.to_string(), measured.contains(key));
    };
    let known = parts
        .keys()
        .any(|part| measured.contains(&format!("{key}.{part}")));
    let parts: Vec<String> = parts
        .iter()
        .map(|(part, value)| format!("{part} = {value}"))
        .collect();
    (format!("{{ {} }}", parts.join(", ")), known)
}
