//! Calls by which programs poll: they may fill most of a trace with little information.
//!
//! Counted by function, recorded or not, so that the line does not depend on sampling. Called when the
//! summary is made.

use std::collections::BTreeMap;

use belljar_mpi::{FUNCTIONS, meaning};
use belljar_sim::figures::decimal;
use belljar_trace::Counters;
use belljar_tracer::Selection;

/// Number of calls from which they are reported.
const MANY: u64 = 1_000_000;
/// Recording one of this number suffices.
const ENOUGH: u64 = 1000;

/// The number of calls of each polling function.
pub(super) fn of(counters: &Counters) -> BTreeMap<String, u64> {
    let named = counters.calls.iter().filter_map(|(&number, &calls)| {
        let name = FUNCTIONS.get(usize::from(number))?.name;
        meaning(number).polls.then(|| (name.to_owned(), calls))
    });
    named.collect()
}

/// A line for each polling function with very many calls on all nodes together, with the recorded part.
pub(super) fn told<'a>(
    polls: impl Iterator<Item = &'a BTreeMap<String, u64>>,
    selection: &Selection,
    folded: bool,
) -> Vec<String> {
    let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, calls) in polls.flatten() {
        *sum.entry(name).or_default() += calls;
    }
    let many = sum.into_iter().filter(|(_, calls)| *calls >= MANY);
    many.map(|(name, calls)| {
        let recorded = match selection.every(name) {
            0 => "none recorded".to_owned(),
            1 if folded => "recorded, those that found nothing together".to_owned(),
            1 => format!(
                "all recorded; one in {ENOUGH} is enough with: --set trace.sample.{name}={ENOUGH}"
            ),
            every => format!("sampled 1 in {every}"),
        };
        format!(
            "{} million calls of {name}, {recorded}",
            decimal(calls as f64 / 1e6, 1)
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_is_told_with_what_is_recorded_of_it() {
        let of = |name: &str, calls| BTreeMap::from([(name.to_owned(), calls)]);
        let nodes = [
            of("MPI_Wtime", 900_000),
            of("MPI_Wtime", 200_000),
            of("MPI_Test", 999_999),
        ];
        let mut selection = Selection::default();
        let lines = |selection: &Selection| told(nodes.iter(), selection, false);
        let folded = "1.1 million calls of MPI_Wtime, recorded, those that found nothing together";
        assert_eq!(told(nodes.iter(), &selection, true), [folded]);
        let all = "1.1 million calls of MPI_Wtime, all recorded; one in 1000 is enough with: --set trace.sample.MPI_Wtime=1000";
        assert_eq!(lines(&selection), [all]);
        selection.sampling.insert("MPI_W*".to_owned(), 50);
        let some = "1.1 million calls of MPI_Wtime, sampled 1 in 50";
        assert_eq!(lines(&selection), [some]);
        selection.functions.push("MPI_Send".to_owned());
        let none = "1.1 million calls of MPI_Wtime, none recorded";
        assert_eq!(lines(&selection), [none]);
    }
}
