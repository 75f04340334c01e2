//! Counts of records that were skipped or changed.
//!
//! Counted as events are read, reported once at the end.

use std::collections::BTreeMap;

use belljar_sim::figures::counted_as;

use crate::builder::amounts::Counting;

/// Counts of skipped records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Functions outside of MPI.
    pub(super) others: u64,
    /// Messages and similar records outside of any call.
    pub(super) outside: u64,
    /// Records of an unknown kind.
    pub(super) unknown: u64,
    /// Operations without a completion in time.
    pub(super) untold: u64,
    /// Matched probes and matched receives.
    pub(super) matched: u64,
    /// Parts in collective operations.
    pub(super) operations: u64,
    /// Parts in operations whose pieces are assumed to be equal.
    pub(super) pieces: u64,
    /// Functions that are left without being entered, or the reverse.
    pub(super) unpaired: u64,
    /// Visits of functions of MPI without a known name, by region.
    pub(super) unnamed: BTreeMap<u32, u64>,
    /// Locations without a file of definitions, although others have one.
    pub(super) undefined: Vec<u64>,
    /// Locations with a file of definitions.
    pub(super) defined: u64,
    /// Locations with fewer events than their definitions declare.
    pub(super) cut: u64,
    /// The first of them: its number, its events, and those of its definition.
    pub(super) short: Option<(u64, u64, u64)>,
}

impl Counts {
    /// Describes the skipped records.
    pub(super) fn notes(&self, counting: Counting) -> Vec<String> {
        let score_p = "collective operations in place, of which Score-P counts one member less, may be taken for operations of other lengths";
        let mut notes = Vec::new();
        for (count, one, many) in [
            (
                self.others,
                "visit of the program's own functions is left out",
                "visits of the program's own functions are left out",
            ),
            (
                self.outside,
                "message or the like is left out: it is in no function of MPI",
                "messages and the like are left out: they are in no function of MPI",
            ),
            (
                self.unknown,
                "record of a kind that is not known is left out",
                "records of kinds that are not known are left out",
            ),
            (
                self.untold,
                "receive or collective operation that was begun has neither peer nor length: the archive does not tell its end",
                "receives and collective operations that were begun have neither peer nor length: the archive does not tell their end",
            ),
            (
                self.matched,
                "message of MPI_Mprobe and MPI_Mrecv is left out",
                "messages of MPI_Mprobe and MPI_Mrecv are left out",
            ),
            (
                self.pieces,
                "part in a collective operation has pieces of equal length: the archive tells their sum alone",
                "parts in collective operations have pieces of equal length: the archive tells their sum alone",
            ),
            (
                self.unpaired,
                "function is left without being entered, or ends with the trace",
                "functions are left without being entered, or end with the trace",
            ),
        ] {
            if count > 0 {
                notes.push(counted_as(count, one, many));
            }
        }
        if let Some((location, events, defined)) = self.short {
            let others = match self.cut {
                1 => String::new(),
                cut => format!(", and {} other locations lack events", cut - 1),
            };
            notes.push(format!(
                "location {location} has {events} of the {defined} events that its definition says: its file {location}.evt ends early{others}"
            ));
        }
        if let Some(location) = self.undefined.first().filter(|_| self.defined > 0) {
            let others = match self.undefined.len() {
                1 => String::new(),
                count => format!(", and of {} others", count - 1),
            };
            notes.push(format!(
                "the definitions of location {location} are missing ({location}.def){others}: its numbers are taken for those of the archive, and its clock for correct"
            ));
        }
        if self.operations > 0 && counting == Counting::Members {
            notes.push(score_p.to_owned());
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_told_of_where_there_are_some() {
        let mut counts = Counts::default();
        assert_eq!(counts.notes(Counting::Members), Vec::<String>::new());
        counts.operations = 3;
        assert_eq!(counts.notes(Counting::Members).len(), 1);
        assert_eq!(counts.notes(Counting::Buffers).len(), 0);
    }
}
