//! Facts of the code that pages of the book state: versions of formats.
//!
//! Tests alone. Facts are read from the sources, so that nothing has to be compiled for them.

use std::fs;

use regex::Regex;

/// Formats with a version: the name in `docs/run-directory.md`, the source file, and the constant there.
const FORMATS: [(&str, &str, &str); 6] = [
    ("trace", "trace/src/file.rs", "VERSION"),
    ("probes", "trace/archive/src/probes.rs", "VERSION"),
    ("profile", "tracer/profile/src/form.rs", "VERSION"),
    (
        "checkpoint",
        "cluster/src/run/checkpoint/record.rs",
        "VERSION",
    ),
    ("snapshot", "vmm/src/snapshot.rs", "VERSION"),
    ("model", "model/src/model.rs", "VERSION"),
];

fn read(path: &str) -> String {
    let text = fs::read_to_string(crate::root().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the value of a whole-number constant in a source file.
fn constant(path: &str, name: &str) -> u64 {
    let pattern = format!(r"(?m)^(?:pub(?:\([a-z]+\))? )?const {name}: u\d+ = (\d+);");
    let text = read(path);
    let found = Regex::new(&pattern).expect("a pattern").captures(&text);
    let found = found.unwrap_or_else(|| panic!("{path} has no constant {name}"));
    found[1].parse().expect("it is a number")
}

#[test]
fn the_table_of_versions_is_that_of_the_code() {
    let page = read("docs/run-directory.md");
    for (format, path, name) in FORMATS {
        let row = format!("| {format} | {} |", constant(path, name));
        assert!(
            page.contains(&row),
            "docs/run-directory.md has no row `{row}`"
        );
    }
}

#[test]
fn the_page_of_traces_is_about_the_current_version() {
    let page = read("docs/trace-format.md");
    let trace = |name| constant("trace/src/file.rs", name);
    let (current, earliest) = (trace("VERSION"), trace("EARLIEST_VERSION"));
    let current_row = format!("| 2 | version | {current} |");
    assert!(page.contains(&current_row), "no `{current_row}`");
    let row = Regex::new(r"(?m)^\| (\d+) \| ").expect("a pattern");
    let versions = page
        .split_once("## Versions")
        .expect("a list of versions")
        .1;
    let rows = row.captures_iter(versions);
    let listed: Vec<u64> = rows.map(|row| row[1].parse().expect("digits")).collect();
    let expected: Vec<u64> = (earliest..=current).rev().collect();
    assert_eq!(listed, expected);
}

#[test]
fn constants_are_found() {
    assert!(constant("trace/src/file.rs", "VERSION") >= 14);
}
