//! Arguments of a collective operation: operation, number of elements, and their size.
//!
//! Counts are found among the arguments by name; bytes were computed by the tracer. Called for every
//! collective call that is expanded.

use belljar_collectives::Call;
use belljar_mpi::Operation;
use belljar_trace::{Amount, Collective, Event, Peer, Phase};

use super::Unknown;

/// The word of the parameter with this name.
pub(crate) fn word(event: &Event, name: &str) -> Option<u64> {
    let parameters = event.description().parameters;
    let index = parameters
        .iter()
        .position(|parameter| parameter.name == name)?;
    event.arguments.get(index).copied()
}

/// Bytes of the amount, as recorded.
pub(crate) fn bytes(amount: &Amount) -> Result<u64, Unknown> {
    amount.bytes.ok_or(Unknown::Bytes)
}

/// One piece for each of `count` members.
pub(crate) fn pieces(amount: &Amount, count: u32) -> Result<&[u64], Unknown> {
    amount.pieces.get(..count as usize).ok_or(Unknown::Pieces)
}

/// The call of a member with this rank among `members`, except for properties of its reduction.
pub(crate) fn call(
    event: &Event,
    operation: Operation,
    collective: &Collective,
    members: u32,
    rank: u32,
) -> Result<Call, Unknown> {
    let root = match collective.root {
        Some(Peer::Rank(root)) => root,
        Some(_) => return Err(Unknown::Peer),
        None => 0,
    };
    let call = Call {
        nonblocking: collective.phase != Phase::Done,
        in_place: word(event, "sendbuf").is_some_and(|it| event.implementation.in_place(it)),
        ..Call::new(operation, members, rank).root(root)
    };
    let (sent, received) = (&collective.sent, &collective.received);
    let is_root = rank == root;
    let elements = |count: &str, amount: &Amount| {
        let bytes = bytes(amount)?;
        // A trace without arguments still has bytes.
        let count = word(event, count).map_or(Ok(bytes), |count| count.cast_signed().try_into());
        let count = count.unwrap_or(0);
        let element = bytes.checked_div(count).unwrap_or(1);
        Ok(call.clone().elements(count, element))
    };
    let own = |amount: &Amount| Ok(vec![bytes(amount)?]);
    let all = |amount: &Amount| Ok(pieces(amount, members)?.to_vec());
    match operation {
        Operation::Barrier => Ok(call),
        Operation::Gather if !is_root => elements("sendcount", sent),
        Operation::Scatter if is_root => elements("sendcount", sent),
        Operation::Gather | Operation::Scatter | Operation::Allgather | Operation::Alltoall => {
            elements("recvcount", received)
        }
        Operation::ReduceScatterBlock => elements("recvcount", received),
        Operation::Broadcast
        | Operation::Reduce
        | Operation::Allreduce
        | Operation::Scan
        | Operation::Exscan => elements("count", sent),
        Operation::Gatherv if is_root => Ok(call.pieces(Vec::new(), all(received)?)),
        Operation::Gatherv => Ok(call.pieces(own(sent)?, Vec::new())),
        Operation::Scatterv if is_root => Ok(call.pieces(all(sent)?, Vec::new())),
        Operation::Scatterv => Ok(call.pieces(Vec::new(), own(received)?)),
        Operation::Allgatherv => Ok(call.pieces(Vec::new(), all(received)?)),
        Operation::Alltoallv | Operation::Alltoallw => Ok(call.pieces(all(sent)?, all(received)?)),
        Operation::ReduceScatter => Ok(call.pieces(all(sent)?, Vec::new())),
        Operation::NeighborAllgather
        | Operation::NeighborAllgatherv
        | Operation::NeighborAlltoall
        | Operation::NeighborAlltoallv
        | Operation::NeighborAlltoallw => Err(Unknown::Neighbors),
    }
}
