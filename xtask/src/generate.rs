//! `cargo xtask generate`: the table of MPI functions, from the headers that are installed.
//!
//! With `--check` no file is written, and installed headers of other versions than the table's are no
//! failure. Called by `main`, and by the tests' group of lints.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use belljar_generate::{DEBIAN_HEADERS, first_line, read_headers, render, version};

/// Writes, or compares, the table of MPI operations.
pub(crate) fn mpi(check: bool) -> Result<()> {
    let headers: Vec<&Path> = DEBIAN_HEADERS.iter().map(Path::new).collect();
    for header in &headers {
        if !header.exists() {
            bail!(
                "{} is missing; install it with: apt install libmpich-dev libopenmpi-dev",
                header.display()
            );
        }
    }
    let versions = versions(&headers)?;
    let target = crate::root().join("mpi/src/functions.rs");
    let present =
        fs::read_to_string(&target).with_context(|| format!("cannot read {}", target.display()))?;
    if check && !present.starts_with(&first_line(&versions)) {
        eprintln!(
            "SKIPPED: the table was made from other versions than {versions}, which are installed here"
        );
        return Ok(());
    }
    let source = render(&read_headers(&headers)?, &versions);
    if present == source {
        println!("{} is up to date", target.display());
        return Ok(());
    }
    if check {
        bail!(
            "{} differs from what the headers give; run `cargo xtask generate`",
            target.display()
        );
    }
    fs::write(&target, source).with_context(|| format!("cannot write {}", target.display()))?;
    println!("wrote {}", target.display());
    Ok(())
}

/// The installed headers by name and version.
fn versions(headers: &[&Path]) -> Result<String> {
    let mut names = Vec::new();
    for header in headers {
        let text = fs::read_to_string(header)
            .with_context(|| format!("cannot read {}", header.display()))?;
        let name =
            version(&text).with_context(|| format!("{} names no version", header.display()))?;
        names.push(name);
    }
    Ok(names.join(" and "))
}
