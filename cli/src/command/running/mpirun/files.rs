//! Files that a run brings, by their names on nodes.
//!
//! Two files never share a name. Called for `--file`, for programs and for libraries.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use belljar_cli::mpirun::choose::name_in_guest;

/// Adds a file under a name that no other file has.
pub(in crate::command) fn add(
    files: &mut BTreeMap<String, PathBuf>,
    name: &str,
    path: &Path,
) -> Result<()> {
    let full = std::path::absolute(path)?;
    let is_same = |other: &Path| match (fs::canonicalize(other), fs::canonicalize(&full)) {
        (Ok(other), Ok(this)) => other == this,
        _ => false,
    };
    match files.insert(name.to_owned(), full.clone()) {
        Some(other) if !is_same(&other) => bail!(
            "{} and {} would both be `{name}` on the nodes; give one another name with --file PATH=NAME, or start it by a path below this folder",
            other.display(),
            full.display()
        ),
        _ => Ok(()),
    }
}

/// Takes in a file, or all files of a folder.
pub(in crate::command) fn take_in(wish: &str, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let (path, name) = match wish.split_once('=') {
        Some((path, name)) if !Path::new(wish).exists() => (Path::new(path), name.to_owned()),
        _ => (Path::new(wish), name_in_guest(Path::new(wish))),
    };
    let data = fs::metadata(path).with_context(|| format!("--file {wish}: cannot read it"))?;
    if data.is_file() {
        return add(files, name.trim_matches('/'), path);
    }
    if !data.is_dir() {
        bail!("--file {wish}: it is neither a file nor a folder");
    }
    let entries = fs::read_dir(path).with_context(|| format!("--file {wish}: cannot list it"))?;
    for entry in entries {
        let entry = entry?;
        let Some(last) = entry.file_name().to_str().map(str::to_owned) else {
            bail!(
                "--file {wish}: the name of {} is not UTF-8",
                entry.path().display()
            );
        };
        let name = match name.trim_matches('/') {
            "" => last,
            above => format!("{above}/{last}"),
        };
        let path = entry.path();
        match fs::metadata(&path) {
            Ok(data) if data.is_dir() && !entry.file_type()?.is_symlink() => {
                let inner = path.to_str().map(|path| format!("{path}={name}"));
                take_in(
                    &inner.with_context(|| format!("--file {wish}: the name is not UTF-8"))?,
                    files,
                )?;
            }
            Ok(data) if data.is_file() => add(files, &name, &path)?,
            _ => note!(
                "note: {} is not a regular file and is left out",
                path.display()
            ),
        }
    }
    Ok(())
}
