//! Buffers of partitioned messages.
//!
//! A partition of a send belongs to the operation from the call that marks it ready, and a partition of a receive from the
//! start until the partition has arrived; both at most until the request is complete (MPI-4.0, 4.2). Partitions have equal
//! numbers of elements, and so of ranges. Called at returns of calls.

use std::collections::BTreeMap;

use belljar_mpi::CallKind;
use belljar_trace::Event;
use bincode::{Decode, Encode};

use super::operations::{BufferRole, OwnedRange, ProcessBuffers, Until, word};
use crate::decode::arguments::Arguments;
use crate::guest::memory::Reader;

/// Most partitioned requests of a process.
const MOST_REQUESTS: usize = 1 << 12;
/// Most partitions that a call marks.
const MOST_MARKED: u64 = 1 << 16;

/// The buffer of a partitioned request.
#[derive(Clone, Debug, Encode, Decode)]
struct PartitionedBuffer {
    /// The ranges of all partitions, one after the other.
    ranges: Vec<OwnedRange>,
    partitions: usize,
    /// The end of the operation in progress.
    until: Option<Until>,
}

impl PartitionedBuffer {
    /// The ranges of a partition; empty if there is no such one.
    fn of(&self, partition: usize) -> &[OwnedRange] {
        let each = self.ranges.len() / self.partitions.max(1);
        let start = partition.saturating_mul(each);
        self.ranges
            .get(start..start.saturating_add(each))
            .unwrap_or_default()
    }
}

/// Partitioned requests of a process, by their numbers.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(super) struct PartitionedBuffers {
    all: BTreeMap<u32, PartitionedBuffer>,
}

impl PartitionedBuffers {
    /// Adds the request that a call prepared, with the ranges of its partitions; returns false if they are not described
    /// exactly, or an earlier request had to go.
    pub(super) fn prepare(&mut self, event: &Event, ranges: Vec<OwnedRange>) -> bool {
        let partitions = word(event, "partitions").and_then(|count| usize::try_from(count).ok());
        let partitions = partitions.filter(|count| *count > 0);
        let Some((number, partitions)) = number(event).zip(partitions) else {
            return false;
        };
        if !ranges.len().is_multiple_of(partitions) {
            return false;
        }
        let buffer = PartitionedBuffer {
            ranges,
            partitions,
            until: None,
        };
        self.all.insert(number, buffer);
        self.all.len() <= MOST_REQUESTS || self.all.pop_first().is_none()
    }

    /// Starts a request. Returns the ranges that it owns at once: those of a receive.
    pub(super) fn start(&mut self, number: u32, until: Until) -> Vec<OwnedRange> {
        let Some(buffer) = self.all.get_mut(&number) else {
            return Vec::new();
        };
        buffer.until = Some(until);
        let ranges = buffer.ranges.iter().copied();
        ranges
            .filter(|range| range.role == BufferRole::Receive)
            .collect()
    }

    /// The ranges that a call marks ready, and the end of their operation.
    fn ready(&self, event: &Event, memory: Reader<'_>) -> Option<(Until, Vec<OwnedRange>)> {
        let buffer = self.all.get(&number(event)?)?;
        let mut arguments = Arguments::new(event, memory);
        let marked: Vec<usize> = match (word(event, "partition"), word(event, "partition_low")) {
            (Some(partition), _) => usize::try_from(partition).ok().into_iter().collect(),
            (None, Some(low)) => {
                let low = usize::try_from(low).ok()?;
                let high = usize::try_from(word(event, "partition_high")?).ok()?;
                (low..=high.min(buffer.partitions)).collect()
            }
            (None, None) => {
                let count = arguments.count("length")?.min(MOST_MARKED);
                let listed = arguments.integers("array_of_partitions", count)?;
                let listed = listed.into_iter();
                listed.filter_map(|it| usize::try_from(it).ok()).collect()
            }
        };
        let ranges = marked.iter().flat_map(|partition| buffer.of(*partition));
        Some((buffer.until?, ranges.copied().collect()))
    }

    /// The ranges of the partition that a call found arrived, and the end of their operation.
    fn arrived(&self, event: &Event) -> Option<(Until, &[OwnedRange])> {
        let buffer = self.all.get(&number(event)?)?;
        let partition = usize::try_from(word(event, "partition")?).ok()?;
        Some((buffer.until?, buffer.of(partition)))
    }
}

/// The partitioned request of a call.
fn number(event: &Event) -> Option<u32> {
    event.details.0.as_deref()?.partitioned.first().copied()?
}

impl ProcessBuffers {
    /// Takes a call that marks partitions ready or found one arrived. Returns `None` for other calls; otherwise whether ranges
    /// changed, and false if some are not watched.
    pub(super) fn take_partitions(
        &mut self,
        event: &Event,
        memory: Reader<'_>,
    ) -> Option<(bool, bool)> {
        match event.meaning().kind {
            CallKind::Ready => {
                let Some((until, ranges)) = self.partitioned.ready(event, memory) else {
                    return Some((false, true));
                };
                let has_room = self.begin((event.entry, event.thread), until, ranges);
                Some((true, has_room))
            }
            CallKind::Arrived => {
                let is_over = event.details.0.as_ref().is_some_and(|details| details.over);
                let arrived = self.partitioned.arrived(event).filter(|_| is_over);
                let Some((until, ranges)) = arrived else {
                    return Some((false, true));
                };
                let of_request = self.operations.iter_mut();
                for operation in of_request.filter(|operation| operation.until == until) {
                    operation.ranges.retain(|range| !ranges.contains(range));
                }
                Some((true, true))
            }
            _ => None,
        }
    }
}
