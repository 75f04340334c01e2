//! Equality of calls in a program's flow, and calls that may be dropped.
//!
//! Counts, bytes, tags and roots are ignored, because they change between iterations of the same loop. Used by
//! `follower` for each call.

use std::hash::Hasher;

use belljar_mpi::CallKind;
use belljar_trace::{Direction, Event, Peer, Phase, Site, WORLD};
use bincode::{Decode, Encode};
use twox_hash::XxHash3_64;

/// A node of the event flow graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub(crate) struct Signature {
    /// The function's number.
    pub(crate) function: u16,
    communicator: Option<u32>,
    /// Its peers: direction, kind, and the rank relative to the caller's.
    peers: Vec<(bool, u8, i64)>,
    /// A hash of its call site; 0 if unknown.
    site: u64,
}

impl Signature {
    pub(crate) fn of(event: &Event) -> Self {
        let peers = event.transfers.iter().map(|transfer| {
            let (kind, rank) = match transfer.peer {
                Peer::Rank(rank) => (0, i64::from(rank) - i64::from(event.rank)),
                Peer::Any => (1, 0),
                Peer::Null => (2, 0),
                Peer::Root => (3, 0),
                Peer::Invalid(_) => (4, 0),
            };
            (transfer.direction == Direction::Receive, kind, rank)
        });
        Self {
            function: event.function,
            communicator: event.communicator,
            peers: peers.collect(),
            site: hash(&event.site),
        }
    }
}

impl Signature {
    /// True if it is a message with a named peer: neighbours make such calls equally often.
    pub(crate) fn has_peer(&self) -> bool {
        self.peers.iter().any(|(_, kind, _)| *kind == 0)
    }
}

fn hash(site: &Site) -> u64 {
    let Some(stack) = &site.0 else {
        return 0;
    };
    let mut hasher = XxHash3_64::default();
    for frame in &stack.0 {
        hasher.write(&frame.address.to_le_bytes());
        if let Some(file) = &frame.file {
            hasher.write(file.path.as_bytes());
        }
    }
    hasher.finish()
}

/// True for a collective operation of all of a job's processes: each process makes the same number, in the same order.
pub(crate) fn is_of_all(event: &Event) -> bool {
    let of_world = |it: &belljar_trace::Collective| it.communicator == Some(WORLD);
    event.depth == 0 && event.collectives.iter().any(of_world) && !is_prepared(event)
}

fn is_prepared(event: &Event) -> bool {
    let operations = event.collectives.iter().map(|it| it.phase);
    let transfers = event.transfers.iter().map(|it| it.phase);
    operations
        .chain(transfers)
        .any(|phase| phase == Phase::Prepared)
}

/// True if the call is dropped in a dropped iteration; calls that others depend on and irregular ones are not.
pub(crate) fn may_go(event: &Event) -> bool {
    let details = event.details.0.as_ref();
    let defines = details.is_some_and(|it| it.window.is_some() || it.bounds.is_some());
    event.exit.is_some()
        && event.selected
        && event.bad.is_none()
        && event.fact.is_none()
        && !event.failed()
        && !defines
        && !event.meaning().defines()
        && !is_prepared(event)
}

/// True for the call that ends a process's MPI: no loop follows it.
pub(crate) fn is_last(event: &Event) -> bool {
    event.meaning().kind == CallKind::Finalize
}
