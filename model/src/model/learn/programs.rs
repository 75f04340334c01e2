//! Comparison of runs, to detect different programs.
//!
//! A program is identified by the files that call MPI, with their build IDs, and by the functions that it calls. Used by
//! `learn`.

use std::collections::BTreeSet;

use super::LearnError;
use crate::run::Run;

/// Most names of one kind in a message.
const NAMED: usize = 4;

/// The identity of a run's program, as far as its trace contains it.
struct ProgramIdentity<'r> {
    name: &'r str,
    /// Paths and build IDs of the files that call MPI, without libraries.
    files: BTreeSet<(&'r str, &'r [u8])>,
    /// The scenario's name, by default the program's, without numbers at its end.
    scenario: &'r str,
    /// Functions of MPI that it calls.
    functions: BTreeSet<&'static str>,
}

impl<'r> ProgramIdentity<'r> {
    fn of(run: &'r Run) -> Self {
        let events = || run.steps.iter().flatten().map(|step| &step.event);
        let stacks = events().filter_map(|event| event.site.0.as_ref());
        // The innermost frame outside of libraries, such as bindings of other languages.
        let files = stacks.filter_map(|stack| {
            let mut files = stack.0.iter().filter_map(|frame| frame.file.as_ref());
            files.find(|file| !is_library(&file.path))
        });
        Self {
            name: &run.name,
            files: files.map(|it| (&*it.path, &*it.build_id)).collect(),
            scenario: run
                .header
                .scenario()
                .trim_end_matches(|it: char| !it.is_alphabetic()),
            functions: events().map(belljar_trace::Event::name).collect(),
        }
    }

    fn program(&self) -> String {
        let paths: BTreeSet<&str> = self.files.iter().map(|(path, _)| *path).collect();
        match paths.is_empty() {
            true => self.scenario.to_owned(),
            false => named(paths),
        }
    }
}

fn is_library(path: &str) -> bool {
    path.ends_with(".so") || path.contains(".so.")
}

fn named(all: BTreeSet<&str>) -> String {
    let more = if all.len() > NAMED { " ..." } else { "" };
    let first: Vec<&str> = all.into_iter().take(NAMED).collect();
    format!("{}{more}", first.join(", "))
}

/// Describes functions that only one of two runs calls; `None` if both call the same.
fn difference(one: &ProgramIdentity<'_>, other: &ProgramIdentity<'_>) -> Option<String> {
    let alone = |a: &ProgramIdentity<'_>, b: &ProgramIdentity<'_>| {
        let own: BTreeSet<&str> = a.functions.difference(&b.functions).copied().collect();
        (!own.is_empty()).then(|| format!("{} alone calls {}", a.name, named(own)))
    };
    let both: Vec<String> = [alone(one, other), alone(other, one)]
        .into_iter()
        .flatten()
        .collect();
    (!both.is_empty()).then(|| both.join(", and "))
}

/// Returns warnings about runs that may be of different programs.
///
/// # Errors
/// Returns [`LearnError::Programs`] for runs of programs in different files that call different functions.
pub(super) fn compare(runs: &[Run]) -> Result<Vec<String>, LearnError> {
    let mut warnings = Vec::new();
    let all: Vec<ProgramIdentity<'_>> = runs.iter().map(ProgramIdentity::of).collect();
    let Some((first, others)) = all.split_first() else {
        return Ok(warnings);
    };
    for other in others {
        let known = !first.files.is_empty() && !other.files.is_empty();
        let same_file = first.files.intersection(&other.files).next().is_some();
        // Traces without call sites only have the scenario's name.
        let other_program = match known {
            true => !same_file,
            false => first.scenario != other.scenario,
        };
        match (difference(first, other), other_program) {
            (Some(difference), true) => {
                return Err(LearnError::Programs {
                    one: first.name.to_owned(),
                    other: other.name.to_owned(),
                    programs: format!("{} and {}", first.program(), other.program()),
                    difference,
                });
            }
            // A single build may choose its calls by the number of ranks.
            (Some(_), false) if same_file => {}
            (Some(difference), false) => warnings.push(format!(
                "{} and {} may be runs of different programs: {difference}",
                first.name, other.name
            )),
            (None, true) => warnings.push(format!(
                "{} is a run of {}, and {} of {}: as they call the same functions, they are taken for builds of one program",
                first.name,
                described(first),
                other.name,
                described(other)
            )),
            (None, false) => {}
        }
    }
    Ok(warnings)
}

/// Formats a program's name with the beginning of its build ID.
fn described(of: &ProgramIdentity<'_>) -> String {
    let files = of.files.iter().take(NAMED).map(|(path, build)| {
        let digits: String = build
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        match digits.is_empty() {
            true => (*path).to_owned(),
            false => format!("{path} (build {digits})"),
        }
    });
    let files: Vec<String> = files.collect();
    match files.is_empty() {
        true => of.program(),
        false => files.join(", "),
    }
}
