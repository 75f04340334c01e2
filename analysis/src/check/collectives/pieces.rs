//! Pieces of collective operations with a count for each member: the sender's data against the data that the receiver expects.
//!
//! Both have the same type signature (MPI-4.0, 6.5 to 6.8). Called for each pair of members.

use belljar_mpi::Operation as CollectiveOperation;
use belljar_trace::{Amount, Datatype, Peer};

use super::{TurnContext, TurnPart};
use crate::check::finding::{FindingKind, Findings};
use crate::check::signature::types::{Comparison, TypedData, difference};

/// Compares the pieces that two members exchange.
pub(super) fn compare(
    one: &TurnPart,
    other: &TurnPart,
    context: &TurnContext<'_>,
    findings: &mut Findings,
) {
    let rank = |part: &TurnPart| {
        let process = (part.call.node, part.call.process);
        context.communicators.rank(process, part.communicator)
    };
    let Some((first, second)) = rank(one).zip(rank(other)) else {
        return;
    };
    for (from, to, sender, receiver) in [(first, second, one, other), (second, first, other, one)] {
        let pieces = sent(sender, from, to).zip(expected(receiver, to, from));
        if let Some((sent, expected)) = pieces
            && compare_pieces(sender, &sent, receiver, &expected, context, findings)
        {
            return;
        }
    }
}

/// Data between two members.
pub(super) struct Piece {
    pub(super) bytes: u64,
    pub(super) datatype: Datatype,
}

impl Piece {
    /// The elements of a member's piece; `None` if its datatype is unknown.
    fn data(&self, of: &TurnPart) -> Option<TypedData> {
        let size = self.datatype.size().filter(|size| *size > 0)?;
        Some(TypedData {
            process: (of.call.node, of.call.process),
            datatype: self.datatype,
            count: self.bytes / size,
        })
    }
}

/// Adds a finding if sent and expected data differ; true if it did.
pub(super) fn compare_pieces(
    sender: &TurnPart,
    sent: &Piece,
    receiver: &TurnPart,
    expected: &Piece,
    context: &TurnContext<'_>,
    findings: &mut Findings,
) -> bool {
    let calls = [&sender.call, &receiver.call];
    if sent.bytes != expected.bytes {
        let (sent, expected) = (sent.bytes, expected.bytes);
        let text = format!(
            "{}: rank {} sends {sent} B to rank {}, which expects {expected} B",
            sender.label, sender.call.rank, receiver.call.rank
        );
        findings.add(FindingKind::SizeMismatch, &calls, text);
        return true;
    }
    let data = sent.data(sender).zip(expected.data(receiver));
    let compared = data.map(|(sent, expected)| context.types.compare(sent, expected));
    if let Some(Comparison::Differ(at)) = compared {
        let text = format!(
            "{}: rank {} sends to rank {}, which expects other datatypes{}",
            sender.label,
            sender.call.rank,
            receiver.call.rank,
            difference(at)
        );
        findings.add(FindingKind::DatatypeMismatch, &calls, text);
        return true;
    }
    false
}

/// One side of a member's data: bytes of all pieces, and datatypes of one or of each.
pub(super) struct Side<'a> {
    amount: &'a Amount,
    datatypes: &'a [Datatype],
}

impl Side<'_> {
    fn datatype(&self, at: usize) -> Datatype {
        let own = match self.datatypes {
            [one] => Some(*one),
            all => all.get(at).copied(),
        };
        own.unwrap_or(Datatype::Unknown)
    }

    pub(super) fn piece(&self, of: u32) -> Option<Piece> {
        let index = usize::try_from(of).ok()?;
        Some(Piece {
            bytes: self.amount.pieces.get(index).copied()?,
            datatype: self.datatype(index),
        })
    }

    fn whole(&self) -> Option<Piece> {
        Some(Piece {
            bytes: self.amount.bytes?,
            datatype: self.datatype(0),
        })
    }
}

/// Both sides of a member's data.
pub(super) fn sides(part: &TurnPart) -> Option<(Side<'_>, Side<'_>)> {
    let collective = part.collective.as_ref()?;
    let details = part.call.details.0.as_deref();
    let datatypes = details.and_then(|details| details.datatypes.as_deref());
    let (sent, received) = datatypes.map_or((&[][..], &[][..]), |own| (&own.sent, &own.received));
    let side = |amount, datatypes| Side { amount, datatypes };
    Some((
        side(&collective.sent, sent),
        side(&collective.received, received),
    ))
}

fn is_root(part: &TurnPart, rank: u32) -> bool {
    let root = part.collective.as_ref().and_then(|own| own.root);
    root == Some(Peer::Rank(rank))
}

/// The data that member `own` sends to member `to`; `None` if it sends none, or the trace does not describe it.
fn sent(part: &TurnPart, own: u32, to: u32) -> Option<Piece> {
    use CollectiveOperation as Kind;
    let (sent, _) = sides(part)?;
    match part.collective.as_ref()?.operation? {
        Kind::Alltoallv | Kind::Alltoallw => sent.piece(to),
        Kind::Allgatherv => sent.whole(),
        Kind::Gatherv if is_root(part, to) => sent.whole(),
        Kind::Scatterv if is_root(part, own) => sent.piece(to),
        _ => None,
    }
}

/// The data that member `own` expects from member `from`.
fn expected(part: &TurnPart, own: u32, from: u32) -> Option<Piece> {
    use CollectiveOperation as Kind;
    let (_, received) = sides(part)?;
    match part.collective.as_ref()?.operation? {
        Kind::Alltoallv | Kind::Alltoallw | Kind::Allgatherv => received.piece(from),
        Kind::Gatherv if is_root(part, own) => received.piece(from),
        Kind::Scatterv if is_root(part, from) => received.whole(),
        _ => None,
    }
}
