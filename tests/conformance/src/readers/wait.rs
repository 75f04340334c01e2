//! Counts and waits of `WaitCollector`.
//!
//! Every message of the job is matched or counted as lone or unresolved, and root causes add up to the waiting. Called by the comparison of a trace.

use std::path::Path;

use belljar_analysis::{CallWait, WaitCollector, WaitKind};
use belljar_archive::TraceReader;
use belljar_job::communicators;
use belljar_trace::TraceError;

use super::{Difference, Differences};
use crate::job::{Action, Collective};
use crate::kinds::Kinds;
use crate::truth::{CallKey, Truth};

/// Picoseconds of a cycle.
const CYCLE: u64 = 1000;

pub(super) fn check(
    truth: &Truth,
    kinds: &Kinds,
    path: &Path,
) -> Result<Vec<Difference>, TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let mut collector = WaitCollector::naming(&header, &communicators).with_delays();
    let mut waits = Vec::new();
    for event in reader.by_ref() {
        collector.observe(&event, true);
        waits.extend(collector.waits());
    }
    collector.end();
    waits.extend(collector.waits());
    let found = collector.finish();
    let mut differences = Differences::new("wait");
    let messages = truth.pairs().count() as u64;
    let open = truth
        .pairs()
        .filter(|(send, _)| truth.is_open(*send))
        .count() as u64;
    let [lone_sends, lone_receives] = truth.lone_sides().map(|sides| sides.len() as u64);
    let parts = truth.parts().into_iter();
    let parts = parts.filter(|part| truth.is_among_unknown(part.instance));
    let unresolved = parts.count() as u64 + truth.cancelled_without_status();
    let counts = [
        ("messages", found.messages, messages),
        ("lone sends", found.lone_sends, lone_sends),
        ("lone receives", found.lone_receives, lone_receives),
        ("unresolved parts", found.unresolved, unresolved),
    ];
    for (what, found, expected) in counts {
        differences.unless(found.abs_diff(expected) <= open, || {
            format!("{found} {what} instead of {expected}, of which {open} are open")
        });
    }
    let sends = messages + lone_sends;
    differences.unless(found.messages + found.lone_sends == sends, || {
        format!(
            "{} messages and {} lone sends are not {sends}",
            found.messages, found.lone_sends
        )
    });
    let (whole, lone) = truth.instances();
    let expected = (whole.len() as u64, lone.len() as u64);
    let collectives = (found.collectives, found.lone_collectives);
    differences.unless(collectives == expected, || {
        format!(
            "{collectives:?} collective operations with and without all processes instead of {expected:?}"
        )
    });
    for wait in &waits {
        claim(truth, wait, &mut differences);
    }
    late_senders(truth, &waits, &mut differences);
    let whole_wait: u64 = found.kinds.iter().map(|kind| kind.waiting_ps).sum();
    let caused = found.delays.as_ref();
    let caused = caused.map(|costs| costs.attributed_ps() + costs.unattributed_ps);
    differences.unless(caused == Some(whole_wait), || {
        format!("root causes cost {caused:?} ps instead of the {whole_wait} ps that were waited")
    });
    if kinds.collective_waits {
        for (call, expected) in truth.collective_waits(kinds) {
            let found = waited(&waits, call);
            differences.unless(found == expected, || {
                format!(
                    "{call:?} waits for {found} cycles instead of {expected}, in {:?}",
                    truth.collectives(call)
                )
            });
        }
    }
    if kinds.synchronizing {
        meetings(truth, &waits, &mut differences);
    }
    Ok(differences.all)
}

/// The wait of a call, in cycles; 0 for one that did not wait.
fn waited(waits: &[CallWait], call: CallKey) -> u64 {
    let mut waits = waits.iter();
    let own = waits.find(|wait| wait.rank == call.0 && wait.at_ps / CYCLE == call.2);
    own.map_or(0, |wait| wait.waiting_ps / CYCLE)
}

/// Compares the waits of blocking receives, each for its sender.
fn late_senders(truth: &Truth, waits: &[CallWait], differences: &mut Differences) {
    for (call, receive) in truth.blocking_receives() {
        let Some(send) = truth.sends.get(&receive) else {
            continue;
        };
        let expected = truth.begun_at(*send).saturating_sub(call.2);
        let found = waited(waits, call);
        differences.unless(found == expected || truth.is_open(*send), || {
            format!("the receive {call:?} waits for {found} cycles instead of {expected}")
        });
    }
}

/// Compares the waits of calls that wait for all ranks.
fn meetings(truth: &Truth, waits: &[CallWait], differences: &mut Differences) {
    for (call, last) in truth.meetings() {
        let (found, expected) = (waited(waits, call), last - call.2);
        differences.unless(found == expected, || {
            format!("{call:?} waits for {found} cycles instead of {expected}, for all ranks")
        });
    }
}

/// Compares the wait of a call for its one message or collective operation.
fn claim(truth: &Truth, wait: &CallWait, differences: &mut Differences) {
    let entry = wait.at_ps / CYCLE;
    let calls = truth.begun.iter().chain(&truth.completed);
    let mut calls = calls.filter(|(key, _)| key.0 == wait.rank && key.2 == entry);
    let Some((_, operations)) = calls.next() else {
        return;
    };
    let [operation] = operations.as_slice() else {
        return;
    };
    let at = format!("{} of rank {} at {entry}", wait.function, wait.rank);
    let partner = match wait.kind {
        WaitKind::LateSender => truth.sends.get(operation).copied(),
        WaitKind::LateReceiver => truth
            .pairs()
            .find(|(send, _)| send == operation)
            .map(|(_, receive)| receive),
        kind => {
            let expected = cause(truth.action(*operation));
            differences.unless(expected == Some(kind), || {
                format!("{at} waits by {kind:?} instead of {expected:?}")
            });
            return;
        }
    };
    let expected = partner.map(|partner| {
        (
            truth.rank(partner),
            truth.given_at(partner).saturating_sub(entry),
        )
    });
    let found = (wait.for_rank, wait.waiting_ps / CYCLE);
    let right = expected.is_some_and(|(rank, cycles)| rank == found.0 && found.1 <= cycles);
    differences.unless(right, || {
        format!("{at} waits for {found:?} instead of {expected:?}")
    });
}

/// The cause of waits in a collective operation.
fn cause(action: Action) -> Option<WaitKind> {
    let Action::Collective { operation, .. } = action else {
        return None;
    };
    Some(match operation {
        Collective::Barrier => WaitKind::Barrier,
        Collective::Bcast | Collective::Scatter | Collective::Scatterv => WaitKind::LateBroadcast,
        Collective::Reduce | Collective::Gather | Collective::Gatherv => WaitKind::EarlyReduce,
        Collective::Scan | Collective::Exscan => WaitKind::EarlyScan,
        _ => WaitKind::AllToAll,
    })
}
