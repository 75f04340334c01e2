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

/// The algorithm tables of the MPI library of the traced run: from `library`, or from the run's image. An imported trace has Open
/// MPI's tables.
///
/// # Errors
/// If there is no such library, or the run does not name its image.
pub(in crate::command) fn tables_of_run(trace: &Path, library: Option<&Path>) -> Result<Tables> {
    if let Some(library) = library {
        return Ok(tables_of(library)?);
    }
    // No image ran; imported calls are recorded as Open MPI's, whose rules are known.
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
            "{} sets {name}; its effect on the algorithms of the MPI library is ignored",
            path.display()
        );
    }
    let scenario = Scenario::parse(&path, &text, &[])?;
    let first = implementation(trace)?;
    let roots = Plan::images_of(&scenario, &path)?.into_iter();
    let mut each = roots.map(|image| Ok(tables_in(&GuestRoot::open(&image)?, first)?));
    // If nodes have several images, the first image with an MPI library has the tables.
    let found = each.next().context("a scenario has an image")?;
    found.or_else(|error: anyhow::Error| each.find_map(Result::ok).ok_or(error))
}

/// Variables in a scenario that override the algorithm selection of MPI libraries.
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
/// If it cannot be read.
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
