//! Lists the recipes, their locks and the files that they name, for inclusion in the binary.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of files that built-in recipes name.
const FOLDERS: [&str; 2] = ["guest", "programs"];

fn main() -> std::io::Result<()> {
    let variable = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .unwrap_or_default()
    };
    let here = variable("CARGO_MANIFEST_DIR");
    let mut files = Vec::new();
    for entry in fs::read_dir(&here)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|end| end == "toml" || end == "lock")
            && !path.ends_with("Cargo.toml")
        {
            files.push(path);
        }
    }
    // The folder itself changes when a recipe is added or removed.
    println!("cargo::rerun-if-changed={}", here.display());
    for folder in FOLDERS {
        list(&here.join(folder), &mut files)?;
    }
    let named = files.iter().map(|file| {
        let name = file.strip_prefix(&here).unwrap_or(file);
        (name.to_string_lossy().into_owned(), file)
    });
    let mut named: Vec<(String, &PathBuf)> = named.collect();
    named.sort();
    let mut text = String::from("&[\n");
    for (name, file) in named {
        println!("cargo::rerun-if-changed={}", file.display());
        let _ = writeln!(text, "({name:?}, include_bytes!({file:?})),");
    }
    text.push_str("]\n");
    fs::write(variable("OUT_DIR").join("built_in.rs"), text)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
