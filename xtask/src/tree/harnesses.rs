//! Test harnesses of libraries: built where there are tests, and nowhere else.
//!
//! A library without unit tests has `test = false`, and one without examples in its documentation `doctest = false`:
//! otherwise `cargo test` compiles it once more, or reads it once more for examples. Compared with `cargo metadata`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::shell::cargo;

/// Kinds of tests in a library's sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Harnesses {
    /// Unit tests.
    test: bool,
    /// Examples in documentation that compile.
    doctest: bool,
}

impl Harnesses {
    /// Adds the tests of a source file.
    fn add(&mut self, source: &str) {
        let mut within = false;
        for line in source.lines().map(str::trim_start) {
            self.test |= line == "#[test]" || line.starts_with("proptest!");
            let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
            let Some(language) = comment.and_then(|it| it.trim_start().strip_prefix("```")) else {
                continue;
            };
            let compiled = matches!(language.trim(), "" | "rust" | "no_run" | "should_panic");
            self.doctest |= !within && compiled;
            within = !within;
        }
    }

    /// Adds the tests of all source files below a folder.
    fn add_folder(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                self.add_folder(&path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                self.add(&fs::read_to_string(&path).expect("a source file"));
            }
        }
    }
}

#[test]
fn libraries_have_the_harnesses_of_their_tests() {
    let output = Command::new(cargo())
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(crate::root())
        .output()
        .expect("cargo starts");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let targets = packages
        .iter()
        .flat_map(|package| package["targets"].as_array());
    let libraries = targets
        .flatten()
        .filter(|target| target["kind"][0] == "lib");
    let mut count = 0;
    for library in libraries {
        let root = Path::new(library["src_path"].as_str().expect("a path"));
        let mut found = Harnesses::default();
        found.add_folder(root.parent().expect("a folder"));
        let built = Harnesses {
            test: library["test"] == true,
            doctest: library["doctest"] == true,
        };
        assert_eq!(
            built, found,
            "[lib] of {}: built and needed",
            library["name"]
        );
        count += 1;
    }
    assert!(count > 30, "{count} libraries");
}

#[test]
fn tests_and_examples_are_found() {
    let of = |source: &str| {
        let mut found = Harnesses::default();
        found.add(source);
        (found.test, found.doctest)
    };
    assert_eq!(of("fn a() {}"), (false, false));
    assert_eq!(of("    #[test]\nfn a() {}"), (true, false));
    assert_eq!(of("/// ```text\n/// a\n/// ```\nfn a() {}"), (false, false));
    assert_eq!(of("//! ```no_run\n//! a();\n//! ```"), (false, true));
    assert_eq!(of("/// ```\n/// a();\n/// ```\nfn a() {}"), (false, true));
}
