//! Message races: receives from any source that could have got another message.
//!
//! Another process's message could have arrived first if its send does not depend on the completion of the receive, and if a
//! later receive got it. If that receive takes the first message instead, only the order of results differs, which is a note.
//! Otherwise the other order may block, which is a warning. Called by `order` after the replay.

use std::collections::BTreeMap;

use belljar_job::{Member, ReceiveSelector};

use super::replay::Replay;
use super::{OrderedKind, RunOrder};
use crate::check::finding::{FindingKind, Findings, Severity};

/// Sends of a process with other tags that are skipped in search of one that fits.
const MOST_SKIPPED: usize = 64;

/// A receiver on a communicator.
type Place = (u32, Member);

/// A message: its receive, and its send.
type Taken = (u32, u32);

/// Finds races of all receives from any source.
pub(super) fn find(order: &RunOrder, replay: &Replay<'_>, findings: &mut Findings) {
    if !replay.has_clocks() {
        return;
    }
    let messages = messages(order);
    for (number, operation) in (0..).zip(&order.operations) {
        let OrderedKind::Receive {
            communicator,
            to,
            wanted,
        } = &operation.what
        else {
            continue;
        };
        let Some(send) = operation.partner.filter(|_| wanted.from.is_none()) else {
            continue;
        };
        let place = (*communicator, *to);
        let by_sender = messages.get(&place);
        for (from, own) in by_sender.into_iter().flatten() {
            if is_from(order, send, *from) {
                continue;
            }
            if let Some(other) = candidate(order, replay, own, number, *wanted) {
                report(order, (number, send), other, findings);
            }
        }
    }
}

/// The messages of each receiver by sender, in the order of their receives.
fn messages(order: &RunOrder) -> BTreeMap<Place, BTreeMap<Member, Vec<Taken>>> {
    let mut all: BTreeMap<Place, BTreeMap<Member, Vec<Taken>>> = BTreeMap::new();
    for (number, operation) in (0..).zip(&order.operations) {
        let OrderedKind::Receive {
            communicator, to, ..
        } = &operation.what
        else {
            continue;
        };
        let Some(send) = operation.partner else {
            continue;
        };
        if let OrderedKind::Send { from, .. } = &order.operations[send as usize].what {
            let by_sender = all.entry((*communicator, *to)).or_default();
            by_sender.entry(*from).or_default().push((number, send));
        }
    }
    all
}

fn is_from(order: &RunOrder, send: u32, member: Member) -> bool {
    matches!(&order.operations[send as usize].what, OrderedKind::Send { from, .. } if *from == member)
}

fn takes(wanted: ReceiveSelector, order: &RunOrder, send: u32) -> bool {
    match &order.operations[send as usize].what {
        OrderedKind::Send { from, tag, .. } => {
            wanted.from.is_none_or(|own| own == *from) && wanted.tag.is_none_or(|own| own == *tag)
        }
        _ => false,
    }
}

/// The first message of a sender that a later receive got, and that this receive could have got.
fn candidate(
    order: &RunOrder,
    replay: &Replay<'_>,
    own: &[Taken],
    receive: u32,
    wanted: ReceiveSelector,
) -> Option<Taken> {
    let later = own.partition_point(|(other, _)| *other <= receive);
    let later = own[later..].iter().take(MOST_SKIPPED);
    let (other, send) = later
        .copied()
        .find(|(_, send)| takes(wanted, order, *send))?;
    let begin = replay.begin_of(send)?;
    let is_free = match replay.end_of(receive) {
        Some((thread, call)) => begin.of(thread) < call,
        None => true,
    };
    is_free.then_some((other, send))
}

fn report(
    order: &RunOrder,
    (receive, send): Taken,
    (other, other_send): Taken,
    findings: &mut Findings,
) {
    let example =
        |operation: u32| &order.examples[order.operations[operation as usize].place as usize];
    let OrderedKind::Receive { wanted, .. } = &order.operations[other as usize].what else {
        return;
    };
    let severity = match takes(*wanted, order, send) {
        true => Severity::Note,
        false => Severity::Warning,
    };
    let calls = [
        example(receive),
        example(send),
        example(other_send),
        example(other),
    ];
    let end = match severity {
        Severity::Note => "which a later receive of the same kind got",
        _ => "which a later receive needs",
    };
    let text = format!(
        "{} from any source got the message of rank {}; it could have got that of rank {}, {end}",
        calls[0].name(),
        calls[1].rank,
        calls[2].rank
    );
    findings.add_as(FindingKind::MessageRace, severity, &calls, text);
}
