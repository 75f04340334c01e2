//! Ranges of window memory that the program accesses between two calls.
//!
//! Accesses of one instruction are joined to ranges, which are exact: between two calls of a process, all orders with accesses
//! of other processes are alike. A process with too many accesses between two calls is watched again after the next call.

use std::collections::BTreeMap;

use belljar_trace::{ProbeRecord, Recorded};
use bincode::{Decode, Encode};

use super::StoppedAccess;
use super::record::with_range;

/// Most accesses between two calls.
const MOST_ACCESSES: u32 = 1 << 12;
/// Most accesses of a process.
const MOST_OF_ALL: u64 = 1 << 22;
/// Most ranges between two calls.
const MOST_RANGES: usize = 1 << 8;

/// An instruction's accesses: window, address of the instruction, and true for stores.
type AccessKey = (u32, u64, bool);

/// The accesses of a process since its last call.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(super) struct WindowAccesses {
    /// The number of the first record, and the ranges by start.
    ranges: BTreeMap<AccessKey, (u64, BTreeMap<u64, u64>)>,
    records: Recorded,
    count: u32,
    all: u64,
    parts: usize,
}

impl WindowAccesses {
    /// True if further accesses are not followed now.
    pub(super) fn is_full(&self) -> bool {
        self.count >= MOST_ACCESSES || self.all >= MOST_OF_ALL || self.parts >= MOST_RANGES
    }

    /// Adds an access of an instruction that has a record; returns false if it has none.
    pub(super) fn widen(&mut self, window: u32, access: &StoppedAccess) -> bool {
        if self.is_full() {
            return true;
        }
        let key = (window, access.instruction, access.write);
        self.count += 1;
        self.all += 1;
        let Some((_, ranges)) = self.ranges.get_mut(&key) else {
            return false;
        };
        let before = ranges.len();
        join(
            ranges,
            access.linear,
            access.linear.saturating_add(access.bytes),
        );
        self.parts = (self.parts + ranges.len()).saturating_sub(before);
        true
    }

    /// Adds the first access of an instruction, with its record.
    pub(super) fn begin(&mut self, window: u32, access: &StoppedAccess, record: ProbeRecord) {
        let key = (window, access.instruction, access.write);
        let range = (access.linear, access.linear.saturating_add(access.bytes));
        let number = self.records.0.len() as u64;
        self.records.0.push(record);
        self.ranges.insert(key, (number, BTreeMap::from([range])));
        self.parts += 1;
    }

    /// Takes the records of the accesses up to cycle `at`: one for each range of an instruction.
    pub(super) fn take(&mut self, at: u64) -> Vec<ProbeRecord> {
        let records = std::mem::take(&mut self.records).0;
        let all = std::mem::take(&mut self.ranges);
        (self.count, self.parts) = (0, 0);
        let mut taken: Vec<(u64, ProbeRecord)> = Vec::new();
        for (number, ranges) in all.into_values() {
            let Some(record) = usize::try_from(number).ok().and_then(|at| records.get(at)) else {
                continue;
            };
            let each = ranges.into_iter();
            taken.extend(
                each.map(|(start, end)| (number, with_range(record.clone(), (start, end), at))),
            );
        }
        taken.sort_by_key(|(number, _)| *number);
        taken.into_iter().map(|(_, record)| record).collect()
    }
}

/// Adds a range to disjoint ranges by start, joined with those that it meets.
fn join(ranges: &mut BTreeMap<u64, u64>, mut start: u64, mut end: u64) {
    while let Some((from, to)) = ranges
        .range(..=end)
        .next_back()
        .map(|(from, to)| (*from, *to))
    {
        if to < start {
            break;
        }
        ranges.remove(&from);
        start = start.min(from);
        end = end.max(to);
    }
    ranges.insert(start, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_where_they_meet() {
        let mut ranges = BTreeMap::new();
        for (start, end) in [(8, 16), (24, 32), (0, 4), (16, 20), (40, 44)] {
            join(&mut ranges, start, end);
        }
        assert_eq!(
            ranges,
            BTreeMap::from([(0, 4), (8, 20), (24, 32), (40, 44)])
        );
        join(&mut ranges, 2, 25);
        assert_eq!(ranges, BTreeMap::from([(0, 32), (40, 44)]));
    }
}
