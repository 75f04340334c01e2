//! Pieces of collective operations with a count for each member: the sender's bytes against those that the receiver expects.
//!
//! Both must be equal (MPI-4.0, 6.5 to 6.8). Called for each pair of members.

use belljar_job::Communicators;
use belljar_mpi::Operation as CollectiveOperation;
use belljar_trace::{Amount, Peer};

use super::TurnPart;
use crate::check::finding::{FindingKind, Findings};

/// Compares the pieces that two members exchange.
pub(super) fn compare(
    one: &TurnPart,
    other: &TurnPart,
    communicators: &Communicators,
    findings: &mut Findings,
) {
    let rank = |part: &TurnPart| {
        let process = (part.call.node, part.call.process);
        communicators.rank(process, part.communicator)
    };
    let Some((first, second)) = rank(one).zip(rank(other)) else {
        return;
    };
    for (from, to, sender, receiver) in [(first, second, one, other), (second, first, other, one)] {
        let sent = sent(sender, from, to);
        let Some((sent, expected)) = sent.zip(expected(receiver, to, from)) else {
            continue;
        };
        if sent != expected {
            let text = format!(
                "{}: rank {} sends {sent} B to rank {}, which expects {expected} B",
                sender.label, sender.call.rank, receiver.call.rank
            );
            let calls = [&sender.call, &receiver.call];
            findings.add(FindingKind::SizeMismatch, &calls, text);
            return;
        }
    }
}

fn piece(amount: &Amount, of: u32) -> Option<u64> {
    let index = usize::try_from(of).ok()?;
    amount.pieces.get(index).copied()
}

fn is_root(part: &TurnPart, rank: u32) -> bool {
    let root = part.collective.as_ref().and_then(|own| own.root);
    root == Some(Peer::Rank(rank))
}

/// The bytes that member `own` sends to member `to`; `None` if it sends none, or the trace does not describe them.
fn sent(part: &TurnPart, own: u32, to: u32) -> Option<u64> {
    use CollectiveOperation as Kind;
    let collective = part.collective.as_ref()?;
    match collective.operation? {
        Kind::Alltoallv | Kind::Alltoallw => piece(&collective.sent, to),
        Kind::Allgatherv => collective.sent.bytes,
        Kind::Gatherv if is_root(part, to) => collective.sent.bytes,
        Kind::Scatterv if is_root(part, own) => piece(&collective.sent, to),
        _ => None,
    }
}

/// The bytes that member `own` expects from member `from`.
fn expected(part: &TurnPart, own: u32, from: u32) -> Option<u64> {
    use CollectiveOperation as Kind;
    let collective = part.collective.as_ref()?;
    match collective.operation? {
        Kind::Alltoallv | Kind::Alltoallw | Kind::Allgatherv => piece(&collective.received, from),
        Kind::Gatherv if is_root(part, own) => piece(&collective.received, from),
        Kind::Scatterv if is_root(part, from) => collective.received.bytes,
        _ => None,
    }
}
