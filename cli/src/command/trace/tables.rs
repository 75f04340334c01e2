//! The decision tables of a run's MPI library.
//!
//! They are in the library's file, in the image that the run's own scenario names. Called by `trace matrix` and by `replay`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use belljar_archive::TraceReader;
use belljar_cluster::plan::Plan;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::Scenario;
use belljar_collectives::Tables;
use belljar_files::read_input_text;
use belljar_trace::Implementation;
use belljar_workload::GuestRoot;
use belljar_workload::tables::{tables_in, tables_of};

use super::import::imported;

/// The tables by which the MPI library of the run with this trace carried out collective operations: those of `library`, or of the run's
/// image; Open MPI's of a trace that was imported.
///
/// # Errors
/// When there is no such library, or the run does not say what its image was.
pub(in crate::command) fn tables_of_run(trace: &Path, library: Option<&Path>) -> Result<Tables> {
    if let Some(library) = library {
        return Ok(tables_of(library)?);
    }
    // No image ran; calls are told as Open MPI's, whose rules are known.
    if imported(trace) {
        return Ok(Tables::open_mpi());
    }
    let path = trace.with_file_name(SCENARIO_FILE);
    let text = read_input_text(&path).with_context(|| {
        format!(
            "cannot read {}, which says which image has the MPI library; name the library's file with --library",
            path.display()
        )
    })?;
    for name in choosing(&text) {
        warning!(
            "{} names {name}; what it makes the MPI library choose is not taken into account",
            path.display()
        );
    }
    let scenario = Scenario::parse(&path, &text, &[])?;
    let first = implementation(trace)?;
    let roots = Plan::images_of(&scenario, &path)?.into_iter();
    let mut each = roots.map(|image| Ok(tables_in(&GuestRoot::open(&image)?, first)?));
    // Of nodes of several images those that have an MPI library run its calls.
    let found = each.next().context("a scenario has an image")?;
    found.or_else(|error: anyhow::Error| each.find_map(Result::ok).ok_or(error))
}

/// Variables in a scenario that make MPI libraries choose other algorithms than by their own rules.
fn choosing(scenario: &str) -> BTreeSet<&str> {
    let words = scenario.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    let names = ["MPIR_CVAR_", "OMPI_MCA_coll", "coll_tuned_", "coll_libnbc_"];
    words
        .filter(|word| names.iter().any(|name| word.starts_with(name)))
        .collect()
}

/// The MPI library of the first call in a trace.
///
/// # Errors
/// When it cannot be read.
pub(in crate::command) fn implementation(trace: &Path) -> Result<Implementation> {
    let mut reader = TraceReader::open(trace)?;
    let first = reader.next();
    Ok(first.map_or(Implementation::Mpich, |event| event.implementation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_choose_algorithms_are_found() {
        let scenario = "command = 'mpirun --mca coll_tuned_use_dynamic_rules 1 ./a'\n\
                        environment = { MPIR_CVAR_BCAST_INTRA_ALGORITHM = 'binomial', HOME = '/' }";
        let found: Vec<&str> = choosing(scenario).into_iter().collect();
        assert_eq!(
            found,
            [
                "MPIR_CVAR_BCAST_INTRA_ALGORITHM",
                "coll_tuned_use_dynamic_rules"
            ]
        );
        assert!(choosing("command = 'mpirun ./a'").is_empty());
    }
}
