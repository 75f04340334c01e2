//! Times of a replay by loop of the program.
//!
//! The replay makes the same calls as the trace, so both have the same loops. Called by `replay`.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use belljar_analysis::{
    Detail, Filter, LoopPart, LoopStructure, ProgramPart, Table, TimesMode, loops, time_words,
};
use serde::Serialize;

use super::render::change;

/// Loops that are listed.
const LISTED: usize = 24;

/// A loop of a class of threads whose calls have the same structure. Times are sums over all of its threads, in
/// picoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LoopOutcome {
    /// The class, from 1.
    class: usize,
    /// Nesting depth: the number of enclosing loops.
    depth: usize,
    /// The first call of each iteration.
    header: String,
    /// Number of iterations.
    iterations: u64,
    /// Number of threads of the class.
    threads: u64,
    /// Time from first calls to last returns.
    total_ps: u64,
    /// The same time in the trace.
    traced_ps: u64,
    /// Time in MPI.
    mpi_ps: u64,
    /// The same time in the trace.
    traced_mpi_ps: u64,
}

/// The loops of the trace `was`, and their times in the replay's trace `is`.
pub(super) fn by_loop(was: &Path, is: &Path) -> Result<Vec<LoopOutcome>> {
    let of = |path: &Path| -> Result<LoopStructure> {
        let everything = Filter::default();
        Ok(loops(path, &everything, Detail::default(), false, TimesMode::Read)?.0)
    };
    let (was, is) = (of(was)?, of(is)?);
    let mut all = Vec::new();
    for (number, (was, is)) in was.classes.iter().zip(&is.classes).enumerate() {
        let threads = was.threads.len() as u64;
        walk(&was.body, &is.body, number + 1, threads, 0, &mut all);
    }
    Ok(all)
}

fn walk(
    was: &[ProgramPart],
    is: &[ProgramPart],
    class: usize,
    threads: u64,
    depth: usize,
    all: &mut Vec<LoopOutcome>,
) {
    for pair in in_loops(was).zip(in_loops(is)) {
        let (was, is) = pair;
        all.push(LoopOutcome {
            class,
            depth,
            header: was.header.clone(),
            iterations: was.iterations.total,
            threads,
            total_ps: is.time.total_ps,
            traced_ps: was.time.total_ps,
            mpi_ps: is.in_mpi_ps,
            traced_mpi_ps: was.in_mpi_ps,
        });
        walk(&was.body, &is.body, class, threads, depth + 1, all);
    }
}

fn in_loops(parts: &[ProgramPart]) -> impl Iterator<Item = &LoopPart> {
    parts.iter().filter_map(|part| match part {
        ProgramPart::Loop(part) => Some(part),
        ProgramPart::Sequence(_) => None,
    })
}

/// Text for a terminal; times are means of the threads.
pub(super) fn text(loops: &[LoopOutcome], out: &mut dyn Write) -> io::Result<()> {
    if loops.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nLoops, by classes of threads with equal calls; times are means of their threads"
    )?;
    let heads = [
        "loop of",
        "class",
        "iterations",
        "total",
        "traced",
        "change",
        "in MPI",
        "traced",
    ];
    let mut table = Table::new(heads);
    for of in loops.iter().take(LISTED) {
        let mean = |sum: u64| time_words(sum / of.threads.max(1));
        table.row(vec![
            format!("{}{}", "  ".repeat(of.depth), of.header),
            of.class.to_string(),
            (of.iterations / of.threads.max(1)).to_string(),
            mean(of.total_ps),
            mean(of.traced_ps),
            change(of.traced_ps, of.total_ps),
            mean(of.mpi_ps),
            mean(of.traced_mpi_ps),
        ]);
    }
    table.write(out)?;
    if loops.len() > LISTED {
        writeln!(out, "{} more loops: --json has all", loops.len() - LISTED)?;
    }
    Ok(())
}
