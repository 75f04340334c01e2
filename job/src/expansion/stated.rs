//! Collective operations as the program called them: sender, receiver and bytes, independent of the library's algorithm.
//!
//! A root gives each member its part, or gets each member's; without a root, each gives to each; in a scan, each gives to the
//! following ones. A process's data for itself are not traffic, and a barrier has no data. Called for each collective call of
//! a trace.

use belljar_mpi::Operation;
use belljar_trace::{Collective, Peer};

use super::passed::{bytes, pieces};
use super::{Unknown, is_plausible};
use crate::communicators::{Communicators, Member, ProcessKey};

/// Calls `to` with each process to which the caller of a collective operation gives data, and the bytes.
///
/// # Errors
/// The missing part of the trace.
pub fn each(
    communicators: &Communicators,
    process: ProcessKey,
    operation: Operation,
    collective: &Collective,
    mut to: impl FnMut(Member, u64),
) -> Result<(), Unknown> {
    let number = collective.communicator.ok_or(Unknown::Peer)?;
    if operation.is_neighborhood() {
        return neighbors(communicators, process, number, collective, to);
    }
    let own = communicators
        .members(process, number)
        .ok_or(Unknown::Peer)?;
    let rank = communicators.rank(process, number).ok_or(Unknown::Peer)?;
    let remote = communicators.remote_members(process, number);
    let partners = remote.unwrap_or(own);
    if !is_plausible(communicators, partners.len()) {
        return Err(Unknown::Peer);
    }
    let between = remote.is_some();
    // Within a group, the caller is among the partners, and gives nothing to itself.
    let others = partners.iter().zip(0u32..);
    let others = others.filter(|(_, other)| between || *other != rank);
    let sent = &collective.sent;
    let root = match collective.root {
        Some(Peer::Rank(root)) => Some(root),
        _ => None,
    };
    let is_root = match between {
        true => collective.root == Some(Peer::Root),
        false => root == Some(rank),
    };
    match operation {
        Operation::Barrier => {}
        // In place, the root already has its part: only others give.
        Operation::Gather | Operation::Gatherv | Operation::Reduce => {
            if let Some(root) = root.filter(|_| !is_root) {
                to(partners.get(root).ok_or(Unknown::Peer)?, bytes(sent)?);
            }
        }
        Operation::Broadcast | Operation::Scatter if is_root => {
            let bytes = bytes(sent)?;
            others.for_each(|(member, _)| to(member, bytes));
        }
        Operation::Scatterv if is_root => {
            let pieces = pieces(sent, partners.len())?;
            others.zip_pieces(pieces, to);
        }
        Operation::Broadcast | Operation::Scatter | Operation::Scatterv => {}
        Operation::Allgather
        | Operation::Allgatherv
        | Operation::Alltoall
        | Operation::Allreduce
        | Operation::ReduceScatterBlock => {
            let bytes = bytes(sent)?;
            others.for_each(|(member, _)| to(member, bytes));
        }
        Operation::Alltoallv | Operation::Alltoallw | Operation::ReduceScatter => {
            // On an intercommunicator, parts of a reduce-scatter go to members of the own group, and their receivers are
            // unknown.
            if between && operation == Operation::ReduceScatter {
                return Err(Unknown::Intercommunicator);
            }
            let pieces = pieces(sent, partners.len())?;
            others.zip_pieces(pieces, to);
        }
        Operation::Scan | Operation::Exscan => {
            let bytes = bytes(sent)?;
            let after = others.filter(|(_, other)| *other > rank);
            after.for_each(|(member, _)| to(member, bytes));
        }
        // Above.
        Operation::NeighborAllgather
        | Operation::NeighborAllgatherv
        | Operation::NeighborAlltoall
        | Operation::NeighborAlltoallv
        | Operation::NeighborAlltoallw => {}
    }
    Ok(())
}

/// Members with their ranks, where each gets the piece of its rank.
trait WithPieces {
    fn zip_pieces(self, pieces: &[u64], to: impl FnMut(Member, u64));
}

impl<I: Iterator<Item = (Member, u32)>> WithPieces for I {
    fn zip_pieces(self, pieces: &[u64], mut to: impl FnMut(Member, u64)) {
        for (member, rank) in self {
            let bytes = pieces.get(rank as usize).copied().unwrap_or(0);
            if bytes > 0 {
                to(member, bytes);
            }
        }
    }
}

/// In a grid, each process gives each neighbour the same data or a piece; a process may be its own neighbour.
fn neighbors(
    communicators: &Communicators,
    process: ProcessKey,
    number: u32,
    collective: &Collective,
    mut to: impl FnMut(Member, u64),
) -> Result<(), Unknown> {
    let slots = communicators.grid_neighbors(process, number);
    let slots = slots.ok_or(Unknown::Neighbors)?;
    let sent = &collective.sent;
    let count = slots.len() as u32;
    let there = slots.iter().flatten().count() as u64;
    for (neighbor, slot) in slots.iter().zip(0usize..) {
        let Some(neighbor) = neighbor else {
            continue;
        };
        let bytes = match sent.share {
            // The tracer knew the number of neighbours, and recorded the sum.
            belljar_trace::Share::Whole if sent.pieces.is_empty() => {
                bytes(sent)?.checked_div(there).unwrap_or(0)
            }
            _ if sent.pieces.is_empty() => bytes(sent)?,
            _ => pieces(sent, count)?[slot],
        };
        to(*neighbor, bytes);
    }
    Ok(())
}
