//! Equality of calls.
//!
//! The parts of a call that the program determines are compared: the function, the partners, tags, sizes, and the
//! result. Addresses and handles are not compared, since they mean nothing outside of their process. Used by
//! comparisons of sequences.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use belljar_mpi::Base;
use belljar_trace::{Amount, Event, Peer};

/// True if a call is compared: made by the program itself, and not a poll.
pub(super) fn counts(event: &Event) -> bool {
    event.depth == 0 && event.selected && !event.meaning().polls
}

/// Returns a hash that is the same for equal calls.
pub(super) fn of(event: &Event) -> u64 {
    let mut hasher = DefaultHasher::new();
    let to = &mut hasher;
    (event.function, event.result, event.communicator).hash(to);
    for (parameter, word) in event.description().parameters.iter().zip(&event.arguments) {
        let number = matches!(parameter.base, Base::Int | Base::Count);
        (number && parameter.pointer == 0).then_some(*word).hash(to);
    }
    for text in &event.texts {
        (text.argument, &text.text).hash(to);
    }
    for transfer in &event.transfers {
        (
            transfer.direction as u8,
            transfer.phase as u8,
            transfer.communicator,
        )
            .hash(to);
        (
            peer(transfer.peer),
            transfer.tag,
            transfer.count,
            transfer.bytes,
        )
            .hash(to);
    }
    for collective in &event.collectives {
        (collective.phase as u8, collective.communicator).hash(to);
        collective.root.map(peer).hash(to);
        amount(&collective.sent, to);
        amount(&collective.received, to);
    }
    (event.started.len(), event.completed.len()).hash(to);
    let statuses = event
        .completed
        .iter()
        .filter_map(|completion| completion.status);
    for status in statuses.chain(event.status) {
        (
            peer(status.source),
            status.tag,
            status.bytes,
            status.cancelled,
        )
            .hash(to);
    }
    hasher.finish()
}

fn amount(amount: &Amount, to: &mut DefaultHasher) {
    (
        amount.bytes,
        &amount.pieces,
        amount.share as u8,
        amount.who as u8,
    )
        .hash(to);
}

/// Encodes a peer as a number: ranks from 0 on, other peers below.
fn peer(peer: Peer) -> i64 {
    match peer {
        Peer::Rank(rank) => rank.into(),
        Peer::Any => -1,
        Peer::Null => -2,
        Peer::Root => -3,
        Peer::Invalid(number) => i64::from(number) - (1 << 40),
    }
}
