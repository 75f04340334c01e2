//! Collective operations of all ranks as actions.
//!
//! Counts are bytes: the reader's default datatype is a byte here. Reductions have no work of their own, as in traces that SimGrid
//! writes. Used by `ti`.

use std::fmt::Write as _;

use belljar_collectives::Operation;

use crate::messages::Together;

/// Formats counts one after the other.
fn counts(counts: impl IntoIterator<Item = u64>) -> String {
    let mut text = String::new();
    for count in counts {
        let _ = write!(text, " {count}");
    }
    text
}

/// Formats the action, with its operands.
pub(super) fn action(together: Together<'_>) -> String {
    let call = together.call;
    let (bytes, root) = (call.bytes(), call.root);
    let own = |pieces: &[u64]| pieces.get(call.rank as usize).copied().unwrap_or(0);
    let sum = |pieces: &[u64]| {
        pieces
            .iter()
            .fold(0, |sum: u64, it| sum.saturating_add(*it))
    };
    let alone = |pieces: &[u64]| pieces.first().copied().unwrap_or(0);
    match call.operation {
        Operation::Barrier => "barrier".to_owned(),
        Operation::Broadcast => format!("bcast {bytes} {root}"),
        Operation::Reduce => format!("reduce {bytes} 0 {root}"),
        Operation::Allreduce => format!("allreduce {bytes} 0"),
        Operation::Scan => format!("scan {bytes} 0"),
        Operation::Exscan => format!("exscan {bytes} 0"),
        Operation::Gather => format!("gather {bytes} {bytes} {root}"),
        Operation::Scatter => format!("scatter {bytes} {bytes} {root}"),
        Operation::Allgather => format!("allgather {bytes} {bytes}"),
        Operation::Alltoall => format!("alltoall {bytes} {bytes}"),
        Operation::Gatherv => {
            let all = together.calls().map(|of| match of.rank == root {
                true => of.received.get(root as usize).copied().unwrap_or(0),
                false => alone(&of.sent),
            });
            let sent = match call.rank == root {
                true => own(&call.received),
                false => alone(&call.sent),
            };
            format!("gatherv {sent}{} {root}", counts(all))
        }
        Operation::Scatterv => {
            let all = together.calls().map(|of| match of.rank == root {
                true => of.sent.get(root as usize).copied().unwrap_or(0),
                false => alone(&of.received),
            });
            let received = match call.rank == root {
                true => own(&call.sent),
                false => alone(&call.received),
            };
            format!("scatterv{} {received} {root}", counts(all))
        }
        Operation::Allgatherv => {
            let received = call.received.iter().copied();
            format!("allgatherv {}{}", own(&call.received), counts(received))
        }
        Operation::Alltoallv | Operation::Alltoallw => {
            let (sent, received) = (&call.sent, &call.received);
            format!(
                "alltoallv {}{} {}{}",
                sum(sent),
                counts(sent.iter().copied()),
                sum(received),
                counts(received.iter().copied())
            )
        }
        Operation::ReduceScatter => {
            let pieces = &call.sent;
            format!("reducescatter{} 0", counts(pieces.iter().copied()))
        }
        Operation::ReduceScatterBlock => {
            let pieces = std::iter::repeat_n(bytes, call.members as usize);
            format!("reducescatter{} 0", counts(pieces))
        }
        // Replays send the messages of neighbours directly, so these do not occur here.
        Operation::NeighborAllgather
        | Operation::NeighborAllgatherv
        | Operation::NeighborAlltoall
        | Operation::NeighborAlltoallv
        | Operation::NeighborAlltoallw => "barrier".to_owned(),
    }
}
