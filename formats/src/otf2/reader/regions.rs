//! Functions of MPI by the names of regions.
//!
//! Tools name functions differently: `MPI_Send` (Score-P), `MPI_Send()` (TAU), with parameters, or like Fortran's bindings, such as `mpi_send_`. A region of MPI's
//! paradigm without a known name is left out and listed. Created from the definitions, before the events.

use std::collections::BTreeMap;

use belljar_mpi::FUNCTIONS;

use super::definitions::Definitions;
use crate::builder::calls::Functions;

/// Most names in a note.
const MOST_NAMED: usize = 5;
/// Characters of a name that are shown.
const LONGEST: usize = 60;

/// Regions that are functions of MPI.
#[derive(Debug)]
pub(super) struct Regions {
    functions: BTreeMap<u32, u16>,
    /// Names of regions whose function is unknown.
    unknown: BTreeMap<u32, String>,
}

impl Regions {
    pub(super) fn of(definitions: &Definitions, functions: &Functions) -> Self {
        let lower = FUNCTIONS.iter().map(|it| it.name.to_ascii_lowercase());
        let lower: BTreeMap<String, u16> = lower.zip(0..).collect();
        let mut own = Self {
            functions: BTreeMap::new(),
            unknown: BTreeMap::new(),
        };
        for (number, region) in definitions.regions() {
            let names = definitions.names(region);
            let mut known = names.iter().map(|name| function(name, functions, &lower));
            if let Some(function) = known.find_map(|it| it) {
                own.functions.insert(number, function);
            } else if region.mpi {
                own.unknown.insert(number, shown(names[0]));
            }
        }
        own
    }

    /// Returns the function of a region.
    pub(super) fn function(&self, region: u32) -> Option<u16> {
        self.functions.get(&region).copied()
    }

    /// True for a region of MPI whose function is unknown.
    pub(super) fn is_unknown(&self, region: u32) -> bool {
        self.unknown.contains_key(&region)
    }

    /// Returns notes on regions of MPI without a known name, with their visits.
    pub(super) fn notes(&self, visits: &BTreeMap<u32, u64>) -> Option<String> {
        let mut names: Vec<&str> = visits
            .keys()
            .filter_map(|region| self.unknown.get(region).map(String::as_str))
            .collect();
        names.sort_unstable();
        names.dedup();
        let first = names.first()?;
        let listed = names.iter().take(MOST_NAMED).skip(1);
        let listed = listed.fold(format!("{first:?}"), |list, name| {
            format!("{list}, {name:?}")
        });
        let more = match names.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let sum: u64 = visits.values().sum();
        Some(format!(
            "regions of MPI whose functions are not known are left out, with {sum} visits: {listed}{more}"
        ))
    }
}

/// Returns the function of a region with this name.
fn function(name: &str, functions: &Functions, lower: &BTreeMap<String, u16>) -> Option<u16> {
    let name = name.split('(').next().unwrap_or_default().trim();
    let name = match name.get(..5) {
        Some(start) if start.eq_ignore_ascii_case("pmpi_") => &name[1..],
        _ => name,
    };
    functions.number(name).or_else(|| {
        let name = name.trim_end_matches('_').to_ascii_lowercase();
        lower.get(&name).copied()
    })
}

/// Shortens a name for messages.
fn shown(name: &str) -> String {
    name.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_names_of_several_kinds() {
        let functions = Functions::new();
        let lower = FUNCTIONS.iter().map(|it| it.name.to_ascii_lowercase());
        let lower: BTreeMap<String, u16> = lower.zip(0..).collect();
        let send = functions.number("MPI_Send");
        for name in [
            "MPI_Send",
            "MPI_Send()",
            "MPI_Send(void *, int, MPI_Datatype, int, int, MPI_Comm) C",
            "MPI_SEND",
            "mpi_send",
            "mpi_send_",
            "mpi_send__",
            "PMPI_Send",
            "pmpi_send_",
        ] {
            assert_eq!(function(name, &functions, &lower), send, "{name}");
        }
        for name in ["", "send", "my_mpi_send", "MPI_Sendx", "MPI_\u{e9}", "()"] {
            assert_eq!(function(name, &functions, &lower), None, "{name}");
        }
    }

    #[test]
    fn regions_of_mpi_without_a_function_are_named() {
        let unknown = (0..7).map(|number| (number, format!("MPIX_{number}")));
        let regions = Regions {
            functions: BTreeMap::new(),
            unknown: unknown.collect(),
        };
        assert_eq!(regions.notes(&BTreeMap::new()), None);
        let visits = |count: u32| (0..count).map(|number| (number, 2)).collect();
        assert_eq!(
            regions.notes(&visits(2)).unwrap(),
            "regions of MPI whose functions are not known are left out, with 4 visits: \"MPIX_0\", \"MPIX_1\""
        );
        assert!(
            regions
                .notes(&visits(7))
                .unwrap()
                .ends_with("\"MPIX_4\" and 2 more")
        );
    }
}
