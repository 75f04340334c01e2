//! The program of a trace, with the algorithms of its collective operations, and warnings about missing parts.
//!
//! Called by `job`, and by commands that need a program alone.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use belljar_collectives::{Library, MAX_LIBRARY_BYTES, Tables};
use belljar_files::open_input;
use belljar_program::{Algorithms, Program, extract};
use belljar_sim::figures::counted_as;
use belljar_trace::TraceState;

use super::AS_RUN;
use crate::command::results::trace::collected::refuse;
use crate::command::results::trace::tables::tables_of_run;

/// The program of a trace, with the collective algorithms of an option or a file. Prints warnings about missing parts.
///
/// # Errors
/// When the trace or the tables cannot be read, and when iterations of the main loop were left out of the trace: the rest is another program.
pub(in crate::command) fn program_of(trace: &Path, collectives: &str) -> Result<Program> {
    Ok(program_with_warnings(trace, collectives)?.0)
}

/// The same, with the warnings that were printed.
pub(super) fn program_with_warnings(
    trace: &Path,
    collectives: &str,
) -> Result<(Program, Vec<String>)> {
    refuse(trace, "a replay")?;
    let tables = tables(collectives, trace)?;
    let algorithms = match collectives {
        AS_RUN => Algorithms::AsRun(&tables),
        _ => Algorithms::By(&tables),
    };
    let (program, state) = extract(trace, algorithms)?;
    let warnings = lacks(&program, &state);
    for warning in &warnings {
        warning!("{warning}");
    }
    Ok((program, warnings))
}

/// The tables that choose algorithms.
fn tables(collectives: &str, trace: &Path) -> Result<Tables> {
    match collectives {
        AS_RUN => Ok(tables_of_run(trace, None).unwrap_or_else(|error| {
            warning!("{error:#}; collective operations take the algorithms of Open MPI 4.1");
            Tables::open_mpi()
        })),
        "openmpi" => Ok(Tables::open_mpi()),
        "mpich" => {
            let tables = tables_of_run(trace, None)?;
            if tables.library() != Library::Mpich {
                bail!(
                    "the run's image has no MPICH whose tables could be read; name its library with --collectives FILE"
                );
            }
            Ok(tables)
        }
        file => {
            let mut bytes = Vec::new();
            open_input(file)
                .and_then(|opened| opened.take(MAX_LIBRARY_BYTES).read_to_end(&mut bytes))
                .with_context(|| {
                    format!(
                        "cannot read {file}; collective operations are as-run, mpich, openmpi, or a file's"
                    )
                })?;
            let text = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
            let tables = match text {
                Some(b'{') => Tables::parse(&bytes),
                _ => Tables::of_library(&bytes),
            };
            tables.with_context(|| file.to_owned())
        }
    }
}

/// Warnings about parts of a program that a replay leaves out or guesses.
fn lacks(program: &Program, state: &TraceState) -> Vec<String> {
    let mut warnings = Vec::new();
    if let TraceState::Incomplete { offset, reason } = state {
        warnings.push(format!(
            "the trace is whole up to byte {offset} only: {reason}"
        ));
    }
    let unknown = program.unknown;
    for (count, one, many) in [
        (
            unknown.messages,
            "message whose partner the trace does not tell, which is left out",
            "messages whose partner the trace does not tell, which are left out",
        ),
        (
            unknown.guessed,
            "receive from any source whose sender the trace does not tell, and for which several come into question: the replay guesses, and may wait for ever",
            "receives from any source whose sender the trace does not tell, and for which several come into question: the replay guesses, and may wait for ever",
        ),
        (
            unknown.across,
            "operation completed by another thread than the one that began it: the replay does not wait for it",
            "operations completed by another thread than the one that began them: the replay does not wait for them",
        ),
        (
            unknown.collectives,
            "collective operation of which the trace does not tell who takes part, which is left out",
            "collective operations of which the trace does not tell who takes part, which are left out",
        ),
        (
            unknown.algorithms,
            "collective operation whose algorithm is not known, which takes that of Open MPI 4.1 or sends straight what it is called with",
            "collective operations whose algorithm is not known, which take that of Open MPI 4.1 or send straight what they are called with",
        ),
        (
            unknown.unfinished,
            "call that never returned",
            "calls that never returned",
        ),
        (
            unknown.unrecorded,
            "call that the scenario did not have recorded (trace.sample, trace.functions): what it waits for is taken for work, and its messages are missing",
            "calls that the scenario did not have recorded (trace.sample, trace.functions): what they wait for is taken for work, and messages of theirs are missing",
        ),
    ] {
        if count > 0 {
            warnings.push(counted_as(count, one, many));
        }
    }
    warnings
}
