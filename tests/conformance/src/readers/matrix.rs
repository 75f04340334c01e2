//! Bytes of messages by pairs of ranks.
//!
//! Each message counts once, at its sender, with the bytes that it has. Called by the comparison of a trace.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_analysis::{TrafficCollector, TrafficOf};
use belljar_archive::TraceReader;
use belljar_job::communicators;
use belljar_trace::TraceError;

use super::{Difference, Differences};
use crate::truth::Truth;

pub(super) fn check(truth: &Truth, path: &Path) -> Result<Vec<Difference>, TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let mut collector = TrafficCollector::new(&header, &communicators, TrafficOf::default(), None);
    for mut event in reader.by_ref() {
        // Messages alone: an MPI_Startall may begin both.
        event.collectives.clear();
        collector.observe(&event, true);
    }
    let matrix = collector.finish();
    let pairs = matrix
        .pairs
        .iter()
        .filter_map(|pair| Some(((pair.from, pair.to?), (pair.messages, pair.bytes))));
    let found: BTreeMap<(u32, u32), (u64, u64)> = pairs.collect();
    let mut expected: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (send, receive) in truth.pairs() {
        let sum = expected
            .entry((truth.rank(send), truth.rank(receive)))
            .or_default();
        sum.0 += 1;
        sum.1 += truth.bytes(send);
    }
    for call in truth.begun.keys() {
        for (target, sent, received) in truth.accesses(*call) {
            let ends = if received > 0 {
                (target, call.0)
            } else {
                (call.0, target)
            };
            let sum = expected.entry(ends).or_default();
            sum.0 += 1;
            sum.1 += sent + received;
        }
    }
    let mut differences = Differences::new("matrix");
    differences.unless(found == expected, || {
        format!("{found:?} instead of {expected:?}")
    });
    Ok(differences.all)
}
