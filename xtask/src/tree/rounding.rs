//! Checks that figures are rounded in one place.
//!
//! `belljar_sim::figures` has the rule of rounding, which a report's page follows, too. A format with a precision rounds
//! differently (half to even). A test reads the sources; tests and examples may print in any form.

use std::fs;
use std::process::Command;

/// Sources with figures of commands.
const PARTS: [&str; 12] = [
    "analysis/",
    "cli/src/",
    "cluster/src/",
    "formats/",
    "job/",
    "model/",
    "replay/",
    "report/",
    "sim/src/",
    "simulate/",
    "trace/",
    "tracer/",
];

/// Sources that write formats of other tools, coordinates of drawings and names of files.
const OTHERS: [&str; 4] = [
    "sim/src/figures.rs",
    "tracer/profile/src/flame.rs",
    "formats/src/ti/writer.rs",
    "cli/src/command/predicting/simulate/files.rs",
];

/// True if a line has a format with a precision, such as `{:.3}`.
fn has_precision(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices('{').any(|(at, _)| {
        let rest = &code[at + 1..];
        let name = rest.find(|it: char| !(it.is_alphanumeric() || it == '_'));
        let Some(format) = name.and_then(|end| rest[end..].strip_prefix(':')) else {
            return false;
        };
        let format = format.split('}').next().unwrap_or_default();
        let digits = format.split_once('.').map(|(_, digits)| digits);
        digits.is_some_and(|digits| digits.starts_with(|it: char| it.is_ascii_digit()))
    })
}

#[test]
fn figures_are_rounded_in_one_place() {
    let files = Command::new("git")
        .args(["ls-files", "*.rs"])
        .current_dir(crate::root())
        .output()
        .expect("git lists the sources");
    let files = String::from_utf8(files.stdout).expect("paths are text");
    let mut found = Vec::new();
    let own = |path: &&str| PARTS.iter().any(|part| path.starts_with(part));
    for path in files.lines().filter(own) {
        let apart = ["/tests/", "/tests.rs", "/examples/", "/benches/"];
        if OTHERS.contains(&path) || apart.iter().any(|part| path.contains(part)) {
            continue;
        }
        let source = fs::read_to_string(crate::root().join(path)).unwrap_or_default();
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code
            .lines()
            .zip(1..)
            .filter(|(line, _)| has_precision(line));
        found.extend(lines.map(|(line, number)| format!("{path}:{number}: {}", line.trim())));
    }
    assert!(
        found.is_empty(),
        "figures with a precision of their own; use belljar_sim::figures:\n{}",
        found.join("\n")
    );
}

#[test]
fn precisions_are_found() {
    assert!(has_precision("format!(\"{:.3} s\", seconds)"));
    assert!(has_precision("format!(\"{percent:+.1} %\")"));
    assert!(has_precision("format!(\"{:>8.2}\", value)"));
    assert!(!has_precision("format!(\"{value:>width$} {}.\", 1.5)"));
    assert!(!has_precision("// {:.3}"));
}
