//! Bytes of messages by pairs of ranks.
//!
//! Each message counts once, at its sender, with the bytes that it has. Called by the comparison of a trace.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_analysis::{TrafficCollector, TrafficOf};
use belljar_archive::TraceReader;
use belljar_job::communicators;
use belljar_trace::{Event, Phase, TraceError};

use super::{Difference, Differences};
use crate::kinds::Kinds;
use crate::truth::Truth;

/// Messages and their bytes, by sender and receiver.
type Pairs = BTreeMap<(u32, u32), (u64, u64)>;

pub(super) fn check(
    truth: &Truth,
    kinds: &Kinds,
    path: &Path,
) -> Result<Vec<Difference>, TraceError> {
    let mut differences = Differences::new("matrix");
    // Messages alone: an MPI_Startall may begin both.
    let found = found(path, |event| event.collectives.clear())?;
    let expected = messages(truth);
    differences.unless(found == expected, || {
        format!("messages {found:?} instead of {expected:?}")
    });
    if kinds.collective_bytes {
        collectives(truth, path, &mut differences)?;
    }
    Ok(differences.all)
}

/// The matrix of a trace with changed events.
fn found(path: &Path, change: impl Fn(&mut Event)) -> Result<Pairs, TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let mut collector = TrafficCollector::new(&header, &communicators, TrafficOf::default(), None);
    for mut event in reader.by_ref() {
        change(&mut event);
        collector.observe(&event, true);
    }
    let matrix = collector.finish();
    let pairs = matrix.pairs.iter();
    let pairs = pairs.filter_map(|pair| Some(((pair.from, pair.to?), (pair.messages, pair.bytes))));
    Ok(pairs.collect())
}

fn add(pairs: &mut Pairs, ends: (u32, u32), bytes: u64) {
    let sum = pairs.entry(ends).or_default();
    sum.0 += 1;
    sum.1 += bytes;
}

/// Messages and accesses.
fn messages(truth: &Truth) -> Pairs {
    let mut pairs = Pairs::new();
    for (send, receive) in truth.pairs() {
        let ends = (truth.rank(send), truth.rank(receive));
        add(&mut pairs, ends, truth.bytes(send));
    }
    // A call that never returns counts nothing, a message that is never received counts.
    let returned = truth
        .begun
        .iter()
        .filter(|(call, _)| truth.returned(**call));
    let begun: Vec<_> = returned.flat_map(|(_, operations)| operations).collect();
    for send in truth.lone_sides()[0]
        .iter()
        .filter(|send| begun.contains(send))
    {
        add(
            &mut pairs,
            (truth.rank(*send), truth.target(*send)),
            truth.bytes(*send),
        );
    }
    for call in truth.begun.keys() {
        for (target, sent, received) in truth.accesses(*call) {
            let ends = match received > 0 {
                true => (target, call.0),
                false => (call.0, target),
            };
            add(&mut pairs, ends, sent + received);
        }
    }
    pairs
}

/// Messages and collective operations with bytes that the call determines; others lose their communicator.
fn collectives(
    truth: &Truth,
    path: &Path,
    differences: &mut Differences,
) -> Result<(), TraceError> {
    let found = found(path, |event| {
        let traffic = truth.traffic((event.rank, event.thread, event.entry));
        let mut determined = traffic.iter().map(Option::is_some);
        // Parts that are prepared are no traffic and not in the truth.
        let parts = event.collectives.iter_mut();
        for part in parts.filter(|part| part.phase != Phase::Prepared) {
            if determined.next() != Some(true) {
                part.communicator = None;
            }
        }
    })?;
    let mut expected = messages(truth);
    for call in truth.begun.keys().filter(|call| truth.returned(**call)) {
        for (to, bytes) in truth.traffic(*call).into_iter().flatten().flatten() {
            add(&mut expected, (call.0, to), bytes);
        }
    }
    differences.unless(found == expected, || {
        format!("with collective operations {found:?} instead of {expected:?}")
    });
    Ok(())
}
