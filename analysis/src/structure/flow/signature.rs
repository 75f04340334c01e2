//! Equality of two calls of a process: function, communicator, partners, tags, sizes.
//!
//! The compared parts can be chosen ([`Detail`]). Partners are as the process specified them; relative ranks are computed
//! after the whole trace was read. Buffers, requests and times are ignored. Used by `collect` to find a call's node, and
//! by `classes` to compare processes.

use belljar_mpi::FUNCTIONS;
use belljar_trace::{Collective, Datatype, Direction, Event, Peer, Phase, Transfer, WORLD};
use serde::Serialize;

use super::partner::Partner;
use crate::dump::words;

/// The detail by which calls are distinguished. Each level includes all levels before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detail {
    /// The function.
    Function,
    /// The communicator, partners and roots.
    #[default]
    Peer,
    /// The tags.
    Tag,
    /// Counts and datatypes.
    Size,
}

/// The role of a part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Message(Direction, Phase),
    Collective(Phase),
    Completion,
}

/// One message, collective operation or completion in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SignatureItem {
    pub(super) role: Role,
    pub(super) communicator: Option<u32>,
    /// The partner of a message, or the root.
    pub(super) peer: Option<Peer>,
    tag: Option<i32>,
    datatype: Option<Datatype>,
    /// Elements of a message; bytes sent and received; completed requests.
    amounts: [Option<u64>; 2],
}

/// A kind of call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Signature {
    function: u16,
    communicator: Option<u32>,
    pub(super) parts: Vec<SignatureItem>,
}

impl Signature {
    /// Returns the signature of a call.
    pub(super) fn of(event: &Event, detail: Detail) -> Self {
        Self {
            function: event.function,
            communicator: communicator(event, detail),
            parts: parts(event, detail).collect(),
        }
    }

    /// True if it is the signature of a call. Used for nearly every call, and allocates nothing.
    pub(super) fn is_of(&self, event: &Event, detail: Detail) -> bool {
        self.function == event.function
            && self.communicator == communicator(event, detail)
            && self.parts.iter().copied().eq(parts(event, detail))
    }

    /// True if it differs from another only in ranks of partners.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let alike = |(one, other): (&SignatureItem, &SignatureItem)| {
            let message = matches!(one.role, Role::Message(..));
            let ranks = matches!(
                (one.peer, other.peer),
                (Some(Peer::Rank(_)), Some(Peer::Rank(_)))
            );
            let peer = if message && ranks {
                one.peer
            } else {
                other.peer
            };
            *one == SignatureItem { peer, ..*other }
        };
        self.function == other.function
            && self.communicator == other.communicator
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(alike)
    }

    /// Returns the function's name.
    pub(crate) fn function(&self) -> &'static str {
        let function = FUNCTIONS.get(usize::from(self.function));
        function.map_or("MPI_?", |function| function.name)
    }

    /// Formats it with these partners: `MPI_Send to +1, tag 3`.
    pub(crate) fn words(&self, partners: &[Partner]) -> String {
        const SHOWN: usize = 4;
        let mut text = self.function().to_owned();
        for (index, (part, partner)) in self.parts.iter().zip(partners).enumerate() {
            if index == SHOWN {
                text += &format!(" and {} more", self.parts.len() - SHOWN);
                break;
            }
            text += &part.words(*partner);
        }
        let of_parts = self.parts.iter().find_map(|part| part.communicator);
        match self.communicator.or(of_parts) {
            None | Some(WORLD) => {}
            Some(number) => text += &format!(" on {}", words::communicator(number)),
        }
        text
    }
}

impl SignatureItem {
    fn words(&self, partner: Partner) -> String {
        let mut text = match (self.role, partner) {
            (Role::Collective(_), Partner::None) | (Role::Completion, _) => String::new(),
            (Role::Collective(_), partner) => format!(" root {partner}"),
            (Role::Message(Direction::Send, _), partner) => format!(" to {partner}"),
            (Role::Message(Direction::Receive, _), partner) => format!(" from {partner}"),
        };
        if let Some(tag) = self.tag {
            text += &format!(" tag {tag}");
        }
        match (self.role, self.datatype, self.amounts) {
            (Role::Message(..), Some(datatype), [Some(count), _]) => {
                text += &format!(" {count} x {}", words::datatype(datatype));
            }
            (Role::Collective(_), _, [Some(out), Some(into)]) if out == into => {
                text += &format!(" {out} B");
            }
            (Role::Collective(_), _, [Some(out), Some(into)]) => {
                text += &format!(" {out} B out, {into} B in");
            }
            (Role::Completion, _, [Some(count), _]) => text += &format!(" of {count}"),
            _ => {}
        }
        text
    }
}

fn communicator(event: &Event, detail: Detail) -> Option<u32> {
    event.communicator.filter(|_| detail >= Detail::Peer)
}

fn parts(event: &Event, detail: Detail) -> impl Iterator<Item = SignatureItem> {
    let messages = event.transfers.iter().map(move |it| message(it, detail));
    let operations = event
        .collectives
        .iter()
        .map(move |it| operation(it, detail));
    let completed = event.completed.len();
    let completion = (completed > 0 && detail >= Detail::Size).then_some(SignatureItem {
        role: Role::Completion,
        communicator: None,
        peer: None,
        tag: None,
        datatype: None,
        amounts: [Some(completed as u64), None],
    });
    let parts = messages.chain(operations).chain(completion);
    parts.take(if detail >= Detail::Peer {
        usize::MAX
    } else {
        0
    })
}

fn message(transfer: &Transfer, detail: Detail) -> SignatureItem {
    let size = detail >= Detail::Size;
    SignatureItem {
        role: Role::Message(transfer.direction, transfer.phase),
        communicator: transfer.communicator,
        peer: Some(transfer.peer),
        tag: transfer.tag.filter(|_| detail >= Detail::Tag),
        datatype: size.then_some(transfer.datatype),
        amounts: [size.then_some(transfer.count), None],
    }
}

fn operation(collective: &Collective, detail: Detail) -> SignatureItem {
    let amounts = match detail {
        Detail::Size => [collective.sent.bytes, collective.received.bytes],
        _ => [None, None],
    };
    SignatureItem {
        role: Role::Collective(collective.phase),
        communicator: collective.communicator,
        peer: collective.root,
        tag: None,
        datatype: None,
        amounts,
    }
}
