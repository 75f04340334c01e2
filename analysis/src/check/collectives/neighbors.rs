//! Data of collective operations among neighbours in a grid: the sender's data against the data that the neighbour expects.
//!
//! A grid has two neighbours in each dimension. Data for the one ahead arrives there as data from the one behind, and vice versa
//! (MPI-4.0, 8.6). The trace does not name neighbours in graphs. Called for each pair of members.

use belljar_mpi::Operation as CollectiveOperation;

use super::pieces::{Piece, compare_pieces, sides};
use super::{TurnContext, TurnPart};
use crate::check::finding::Findings;
use crate::check::signature::Signature;

/// Compares the data that two members exchange.
pub(super) fn compare(
    one: &TurnPart,
    other: &TurnPart,
    context: &TurnContext<'_>,
    findings: &mut Findings,
) {
    for (sender, receiver) in [(one, other), (other, one)] {
        let process = |part: &TurnPart| (part.call.node, part.call.process);
        let communicators = context.communicators;
        let slots = communicators.grid_neighbors(process(sender), sender.communicator);
        let Some(slots) = slots else {
            return;
        };
        let to = receiver.member;
        let own = slots.iter().enumerate();
        for (slot, _) in own.filter(|(_, neighbor)| **neighbor == Some(to)) {
            let pieces = sent(sender, slot).zip(expected(receiver, slot ^ 1));
            if let Some((sent, expected)) = pieces
                && compare_pieces(sender, &sent, receiver, &expected, context, findings)
            {
                return;
            }
        }
    }
}

/// The data that a member sends to the neighbour of a slot.
fn sent(part: &TurnPart, slot: usize) -> Option<Piece> {
    use CollectiveOperation as Kind;
    match part.collective.as_ref()?.operation? {
        Kind::NeighborAlltoallv | Kind::NeighborAlltoallw => {
            sides(part)?.0.piece(u32::try_from(slot).ok()?)
        }
        Kind::NeighborAllgather | Kind::NeighborAllgatherv | Kind::NeighborAlltoall => {
            block(part, "sendcount", "sendtype")
        }
        _ => None,
    }
}

/// The data that a member expects from the neighbour of a slot.
fn expected(part: &TurnPart, slot: usize) -> Option<Piece> {
    use CollectiveOperation as Kind;
    match part.collective.as_ref()?.operation? {
        Kind::NeighborAlltoallv | Kind::NeighborAlltoallw | Kind::NeighborAllgatherv => {
            sides(part)?.1.piece(u32::try_from(slot).ok()?)
        }
        Kind::NeighborAllgather | Kind::NeighborAlltoall => block(part, "recvcount", "recvtype"),
        _ => None,
    }
}

/// The data that two arguments describe; `None` for a persistent operation that was started.
fn block(part: &TurnPart, count: &str, datatype: &str) -> Option<Piece> {
    let signature = Signature::of(&part.call, count, datatype)?;
    Some(Piece {
        bytes: signature.bytes?,
        datatype: signature.data.datatype,
    })
}
