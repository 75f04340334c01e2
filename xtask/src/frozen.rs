//! `cargo xtask frozen`: outputs of every reader on pinned traces, compared with digests in the tree.
//!
//! `tests/frozen/digests.txt` has a row for each pair of a trace and a reader. A change of a reader leaves the rows equal, or rewrites
//! them on purpose. No guest runs and no image is needed. Called by `main`, and by `groups` with the tests.
//! The host's clock times the check itself.
#![allow(clippy::disallowed_methods)]

/// Digests as text, and the comparison of two such texts.
mod digests;
/// Replays on the traced networks.
mod own_network;
/// The pinned traces.
mod pinned;
/// Readers, as command lines.
mod readers;
/// The data of a report's page.
mod report_data;
/// Execution of one reader on one trace.
mod row;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::shell::{BuildProfile, build_belljar};
use digests::{DigestRow, Digests};
use pinned::PinnedTrace;
use readers::{FrozenReader, READERS};
use row::Scratch;

/// The options of `cargo xtask frozen`.
#[derive(Args)]
pub(crate) struct FrozenArguments {
    /// Rewrite tests/frozen/digests.txt.
    #[arg(long)]
    write: bool,
    /// Write outputs into this folder, to diff two builds.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Command to check; built when absent.
    #[arg(long, value_name = "FILE")]
    belljar: Option<PathBuf>,
    /// Check only traces of this name.
    #[arg(long, value_name = "NAME", conflicts_with = "write")]
    only: Vec<String>,
}

/// The folder with the pinned traces and their digests.
fn folder() -> PathBuf {
    crate::root().join("tests/frozen")
}

/// Runs `cargo xtask frozen`.
pub(crate) fn run(arguments: &FrozenArguments) -> Result<()> {
    let binary = match &arguments.belljar {
        Some(path) => path.clone(),
        None => build_belljar(BuildProfile::Dev)?,
    };
    let binary = fs::canonicalize(&binary);
    let binary = binary.context("cannot find the belljar command; drop --belljar to build it")?;
    let mut traces = pinned::all(&folder())?;
    if !arguments.only.is_empty() {
        traces.retain(|trace| arguments.only.contains(&trace.name));
    }
    let digests = digests(&binary, &traces, arguments.keep.as_deref())?;
    let file = folder().join("digests.txt");
    if arguments.write {
        return fs::write(&file, digests.text())
            .with_context(|| format!("cannot write {}", file.display()));
    }
    compare(&file, &digests, &arguments.only)
}

/// Compares the rows of `binary` with those in the tree.
///
/// # Errors
/// When rows differ; they are printed.
pub(crate) fn check(binary: &Path) -> Result<()> {
    let digests = digests(binary, &pinned::all(&folder())?, None)?;
    compare(&folder().join("digests.txt"), &digests, &[])
}

/// Prints the rows that differ from those in `file`.
fn compare(file: &Path, digests: &Digests, only: &[String]) -> Result<()> {
    let text = fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    let mut expected = Digests::parse(&text)?;
    expected.retain(|trace| only.is_empty() || only.iter().any(|name| name == trace));
    let differences = expected.differences(digests);
    for difference in &differences {
        eprintln!("{difference}");
    }
    if differences.is_empty() {
        return Ok(());
    }
    bail!(
        "{} of {} rows differ from tests/frozen/digests.txt; compare outputs with --keep DIR, accept them with --write",
        differences.len(),
        digests.len()
    );
}

/// The digests of all readers on `traces`, computed on all processors.
fn digests(binary: &Path, traces: &[PinnedTrace], keep: Option<&Path>) -> Result<Digests> {
    let begin = Instant::now();
    let pairs = traces
        .iter()
        .flat_map(|trace| READERS.iter().map(move |reader| (trace, reader)));
    let pairs: Vec<(&PinnedTrace, &FrozenReader)> = pairs.collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, DigestRow)>> {
        let mut rows = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((trace, reader)) = pairs.get(number) else {
                return Ok(rows);
            };
            rows.push((number, one(binary, trace, reader, keep)?));
        }
    };
    let mut rows = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut rows = Vec::new();
        for worker in workers {
            let done = worker.join();
            rows.extend(done.unwrap_or_else(|_| bail!("a reader's check panicked"))?);
        }
        anyhow::Ok(rows)
    })?;
    rows.sort_by_key(|(number, _)| *number);
    eprintln!(
        "frozen: {} rows, {:.1} s",
        rows.len(),
        begin.elapsed().as_secs_f64()
    );
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The digest of one reader on one trace.
fn one(
    binary: &Path,
    trace: &PinnedTrace,
    reader: &FrozenReader,
    keep: Option<&Path>,
) -> Result<DigestRow> {
    let scratch = Scratch::new(&folder(), trace)?;
    let parts = scratch.read(binary, trace, reader)?;
    if reader.name == own_network::READER {
        own_network::check(trace, &parts)?;
    }
    if let Some(keep) = keep {
        parts.keep(&keep.join(&trace.name).join(reader.name))?;
    }
    Ok(DigestRow {
        trace: trace.name.clone(),
        reader: reader.name.to_owned(),
        digest: parts.digest(),
    })
}
