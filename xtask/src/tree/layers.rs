//! Directions of dependencies between top folders, from `cargo metadata`.
//!
//! A crate's top folder is the first part of its path. Dependencies between top folders have no circle, so that each can be read, built and used with those below it alone.
//! Dependencies of tests are not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::shell::cargo;

/// The top folders that each top folder depends on.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Reads the arrows between top folders from the workspace's metadata.
fn arrows(metadata: &Value) -> Arrows {
    let packages = metadata["packages"].as_array().expect("packages");
    let folder = |package: &Value| {
        let manifest = package["manifest_path"].as_str()?;
        let own = Path::new(manifest).strip_prefix(crate::root()).ok()?;
        let first = own.components().next()?;
        Some(first.as_os_str().to_str()?.to_owned())
    };
    let folders: BTreeMap<&str, String> = packages
        .iter()
        .filter_map(|package| Some((package["name"].as_str()?, folder(package)?)))
        .collect();
    let mut arrows = Arrows::new();
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let from = &folders[name];
        let needed = package["dependencies"].as_array().into_iter().flatten();
        let needed = needed.filter(|it| it["kind"].is_null());
        let to = needed.filter_map(|it| folders.get(it["name"].as_str()?));
        let others: BTreeSet<String> = to.filter(|to| *to != from).cloned().collect();
        arrows.entry(from.clone()).or_default().extend(others);
    }
    arrows
}

/// Removes folders that depend on no remaining folder, until none is left or the rest forms circles. Returns the rest.
fn circles(mut arrows: Arrows) -> Arrows {
    loop {
        let free =
            |(folder, to): (&String, &BTreeSet<String>)| to.is_empty().then(|| folder.clone());
        let free: BTreeSet<String> = arrows.iter().filter_map(free).collect();
        if free.is_empty() {
            return arrows;
        }
        arrows.retain(|folder, _| !free.contains(folder));
        for to in arrows.values_mut() {
            to.retain(|it| !free.contains(it));
        }
    }
}

#[test]
fn top_folders_have_no_circle() {
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
    let metadata = serde_json::from_slice(&output.stdout).expect("JSON");
    let arrows = arrows(&metadata);
    assert!(arrows["cli"].contains("cluster"), "{arrows:?}");
    assert!(arrows["analysis"].contains("trace"), "{arrows:?}");
    let rest = circles(arrows);
    assert!(
        rest.is_empty(),
        "top folders depend on each other: {rest:?}"
    );
}

#[test]
fn circles_are_found() {
    let of = |pairs: &[(&str, &[&str])]| {
        let sets = pairs.iter().map(|(from, to)| {
            let to = to.iter().map(ToString::to_string);
            ((*from).to_owned(), to.collect())
        });
        sets.collect::<Arrows>()
    };
    assert!(circles(of(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])).is_empty());
    let rest = circles(of(&[
        ("a", &["b"]),
        ("b", &["c"]),
        ("c", &["b"]),
        ("d", &[]),
    ]));
    assert!(rest.contains_key("b") && rest.contains_key("c") && !rest.contains_key("d"));
}
