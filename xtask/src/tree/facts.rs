//! Facts of the code that pages of the book state: versions of formats, and names of groups of tests, of fuzz targets and of commands.
//!
//! Tests alone. Facts are read from the sources, so that nothing has to be compiled for them.

use std::fs;

use clap::{CommandFactory, ValueEnum};
use regex::Regex;

use crate::fuzz::Target;
use crate::groups::Group;

/// Formats with a version: the name in `docs/run-directory.md`, the source file, and the constant there.
const FORMATS: [(&str, &str, &str); 6] = [
    ("trace", "trace/src/file.rs", "VERSION"),
    ("probes", "trace/archive/src/probes/header.rs", "VERSION"),
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

/// The pages of the book and those beside it, each as one line without breaks.
fn pages() -> Vec<String> {
    let docs = fs::read_dir(crate::root().join("docs")).expect("docs/ can be read");
    let docs = docs.map(|entry| entry.expect("docs/ can be read").file_name());
    let docs = docs.map(|name| format!("docs/{}", name.to_string_lossy()));
    let docs = docs.filter(|name| name.ends_with(".md"));
    let others = ["README.md", "CONTRIBUTING.md"].map(str::to_owned);
    let texts = docs.chain(others).map(|path| read(&path));
    texts
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// The words in lower case after a phrase in the pages, and those in the list in code that follows it.
fn named(phrase: &str) -> Vec<String> {
    let pattern = format!(r"{phrase}([a-z][a-z0-9-]*)((?:`,? (?:and )?`[a-z0-9-]+`)*)");
    let pattern = Regex::new(&pattern).expect("a pattern");
    let mut words = Vec::new();
    for page in pages() {
        for found in pattern.captures_iter(&page) {
            words.push(found[1].to_owned());
            let more = found[2].split(|letter: char| !letter.is_ascii_alphanumeric());
            words.extend(
                more.filter(|word| !word.is_empty() && *word != "and")
                    .map(str::to_owned),
            );
        }
    }
    words
}

/// Asserts that all of the words are values of an enumeration.
fn assert_values<T: ValueEnum>(words: &[String]) {
    assert!(!words.is_empty());
    for word in words {
        assert!(T::from_str(word, false).is_ok(), "there is no {word}");
    }
}

#[test]
fn groups_targets_and_commands_on_pages_exist() {
    assert_values::<Group>(&named("cargo xtask test "));
    assert_values::<Target>(&named("cargo xtask fuzz "));
    assert_values::<Target>(&named("fuzz targets? `"));
    let xtask = crate::XtaskArguments::command();
    for word in named("`cargo xtask ") {
        let is_known = xtask.find_subcommand(&word).is_some();
        let is_value =
            Group::from_str(&word, false).is_ok() || Target::from_str(&word, false).is_ok();
        assert!(is_known || is_value || word == "help", "there is no {word}");
    }
}

#[test]
fn constants_are_found() {
    assert!(constant("trace/src/file.rs", "VERSION") >= 14);
}
