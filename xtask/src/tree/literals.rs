//! Literals of MPI functions' names are allowed only where the names are the subject.
//!
//! A call's meaning is in the crate `mpi` and in the trace. A literal of a function's name elsewhere would be one more place that works the meaning
//! out of the name. A test reads the sources; tests, examples and generators of traces may name functions.

use std::fs;
use std::process::Command;

/// Parts about names of functions: the table, the preloaded library, interception, and formats of other tools.
const ABOUT_NAMES: [&str; 7] = [
    "mpi/",
    "guest-lib/",
    "fuzz/",
    "tests/",
    "xtask/",
    "tracer/src/interception/",
    "formats/",
];

/// True for sources that generate calls, for tests and measurements.
fn makes_calls(path: &str) -> bool {
    let parts = [
        "/tests/",
        "/tests.rs",
        "/examples/",
        "/benches/",
        "scripted.rs",
        "/generated",
        "/folded.rs",
    ];
    parts.iter().any(|part| path.contains(part))
}

/// True if a line has the name of a function, or its beginning, as a literal.
fn names_a_function(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["\"MPI_", "\"PMPI_", "\"MPIX_"].iter().any(|start| {
        code.match_indices(start).any(|(at, _)| {
            let mut rest = code[at + start.len()..].chars();
            let first = rest.next().is_some_and(|it| it.is_ascii_uppercase());
            // Constants such as MPI_COMM_WORLD are written in capitals.
            first
                && rest
                    .next()
                    .is_none_or(|it| it.is_ascii_lowercase() || it == '"')
                || code[at + start.len()..].starts_with('"')
        })
    })
}

#[test]
fn no_reader_parses_names_of_functions() {
    let files = Command::new("git")
        .args(["ls-files", "*.rs"])
        .current_dir(crate::root())
        .output()
        .expect("git lists the sources");
    let files = String::from_utf8(files.stdout).expect("paths are text");
    let mut found = Vec::new();
    for path in files.lines() {
        if ABOUT_NAMES.iter().any(|start| path.starts_with(start)) || makes_calls(path) {
            continue;
        }
        let Ok(source) = fs::read_to_string(crate::root().join(path)) else {
            continue;
        };
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        for (line, number) in code.lines().zip(1..) {
            if names_a_function(line) {
                found.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "names of MPI functions outside the crate mpi; use Event::meaning:\n{}",
        found.join("\n")
    );
}

#[test]
fn functions_are_told_from_constants() {
    assert!(names_a_function("    \"MPI_Send\" => true,"));
    assert!(names_a_function("name.strip_prefix(\"MPI_\")"));
    assert!(names_a_function("name.starts_with(\"MPI_R\")"));
    assert!(!names_a_function("    \"MPI_COMM_WORLD\".to_owned()"));
    assert!(!names_a_function("    .map_or(\"MPI_?\", |it| it.name)"));
    assert!(!names_a_function("// As \"MPI_Send\" does."));
}
