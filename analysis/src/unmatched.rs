//! The part of a filter without a match in a trace: a misspelt function, or a rank that the run lacks.
//!
//! Reads the trace only until every part has matched. Used before an analysis with a filter.

use std::collections::BTreeSet;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_sim::Time;
use belljar_thinning::COLLECTED_FILE;
use belljar_trace::{TraceError, matches};

use crate::dump::Filter;
use crate::dump::probes::Records;

/// The first part of a filter without a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// A name or pattern of functions.
    Function {
        /// The name or pattern.
        pattern: String,
        /// The functions in the trace.
        known: Vec<String>,
    },
    /// A rank.
    Rank {
        /// The rank.
        rank: u32,
        /// The highest rank of the trace; `None` in a trace without calls.
        highest: Option<u32>,
    },
    /// Each part matches some calls, but no call matches all parts.
    Together,
}

/// Returns the first part of `filter` without a match in the trace at `path`; `None` if some call or record matches all
/// parts.
///
/// # Errors
/// Returns [`TraceError`] if the trace cannot be read.
pub fn unmatched(path: &Path, filter: &Filter) -> Result<Option<Unmatched>, TraceError> {
    if *filter == Filter::default() {
        return Ok(None);
    }
    let mut seen = UnmatchedParts::of(filter);
    let mut reader = match filter.needs_times() {
        true => TraceReader::open(path)?,
        false => TraceReader::open_untimed(path)?,
    };
    let header = reader.header().clone();
    for event in reader.by_ref().filter(|event| event.selected) {
        seen.ranks.remove(&event.rank);
        seen.highest = seen.highest.max(Some(event.rank));
        seen.name(event.name());
        seen.any = seen.any || filter.wants(&event, &header);
        if seen.has_all() {
            return Ok(None);
        }
    }
    if let Some(mut records) = Records::beside(path)? {
        let header = records.header().clone();
        while let Some((record, probe)) = records.next_before(Time::MAX) {
            seen.name(&probe.name);
            seen.any = seen.any || filter.wants_record(&record, probe, &header.trace);
            if seen.has_all() {
                return Ok(None);
            }
        }
    }
    // Calls dropped from the trace are known as sums.
    let collected = path.with_file_name(COLLECTED_FILE).exists();
    Ok(seen.first(collected))
}

/// The parts of a filter without a match so far.
struct UnmatchedParts {
    ranks: BTreeSet<u32>,
    patterns: Vec<String>,
    names: BTreeSet<String>,
    highest: Option<u32>,
    any: bool,
}

impl UnmatchedParts {
    fn of(filter: &Filter) -> Self {
        Self {
            ranks: filter.ranks.iter().copied().collect(),
            patterns: filter.functions.clone(),
            names: BTreeSet::new(),
            highest: None,
            any: false,
        }
    }

    fn name(&mut self, name: &str) {
        if !self.names.contains(name) {
            self.names.insert(name.to_owned());
            self.patterns.retain(|pattern| !matches(pattern, name));
        }
    }

    fn has_all(&self) -> bool {
        self.any && self.ranks.is_empty() && self.patterns.is_empty()
    }

    fn first(self, collected: bool) -> Option<Unmatched> {
        if let Some(rank) = self.ranks.first() {
            let (rank, highest) = (*rank, self.highest);
            return Some(Unmatched::Rank { rank, highest });
        }
        if collected {
            return None;
        }
        if let Some(pattern) = self.patterns.first() {
            return Some(Unmatched::Function {
                pattern: pattern.clone(),
                known: self.names.into_iter().collect(),
            });
        }
        (!self.any).then_some(Unmatched::Together)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ranks: &[u32], functions: &[&str]) -> UnmatchedParts {
        UnmatchedParts::of(&Filter {
            ranks: ranks.to_vec(),
            functions: functions.iter().map(ToString::to_string).collect(),
            ..Filter::default()
        })
    }

    #[test]
    fn each_part_has_to_match() {
        let mut of = seen(&[], &["MPI_Send", "MPI_Bariere"]);
        of.name("MPI_Send");
        of.any = true;
        assert!(!of.has_all());
        let known = vec!["MPI_Send".to_owned()];
        let pattern = "MPI_Bariere".to_owned();
        assert_eq!(
            of.first(false),
            Some(Unmatched::Function { pattern, known })
        );
        let mut of = seen(&[0, 9], &[]);
        of.ranks.remove(&0);
        of.highest = Some(3);
        let rank = Unmatched::Rank {
            rank: 9,
            highest: Some(3),
        };
        assert_eq!(of.first(true), Some(rank));
        let mut of = seen(&[], &["MPI_*"]);
        of.name("MPI_Send");
        assert_eq!(of.first(false), Some(Unmatched::Together));
    }
}
