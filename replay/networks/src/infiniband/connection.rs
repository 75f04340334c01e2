//! Connections and their packets.
//!
//! Packets of one direction of a connection leave in order. Of messages, at most a window is under way without an acknowledgement; an answer to
//! a read leaves in pieces, and needs none. The card's model has the same limits. Used by the network for each message and acknowledgement.

use std::collections::VecDeque;

use belljar_sim::Time;

use crate::message::MessageId;

/// The most packets under way without an acknowledgement.
const WINDOW: u32 = 64;
/// Packets after which an acknowledgement is requested within a message.
const ACK_EVERY: u32 = 16;
/// Packets of a piece of an answer.
const PIECE: u32 = 16;

/// A message that leaves.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) id: MessageId,
    pub(super) bytes: u64,
    /// Bytes that have left.
    pub(super) sent: u64,
    /// Its data are in the request.
    pub(super) is_inline: bool,
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// Bytes of data.
    pub(super) bytes: u64,
    pub(super) is_inline: bool,
    /// The message that ends with it.
    pub(super) ends: Option<MessageId>,
    /// Packets that its receiver acknowledges; zero if it does not.
    pub(super) acknowledges: u32,
}

/// One direction of a connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) from: u32,
    pub(super) to: u32,
    /// True for answers of the card to reads.
    by_card: bool,
    queue: VecDeque<Outgoing>,
    /// Packets without an acknowledgement.
    pub(super) under_way: u32,
    /// Packets since the last request for an acknowledgement.
    unasked: u32,
    /// Packets of the present piece.
    pub(super) piece: u32,
    /// The time of the last packet, which no later one precedes.
    pub(super) last: Time,
    /// When the pieces so far have left.
    pub(super) paced: Time,
}

impl Connection {
    pub(super) fn new(from: u32, to: u32, by_card: bool) -> Self {
        Self {
            from,
            to,
            by_card,
            queue: VecDeque::new(),
            under_way: 0,
            unasked: 0,
            piece: 0,
            last: Time::ZERO,
            paced: Time::ZERO,
        }
    }

    /// Adds a message.
    pub(super) fn push(&mut self, message: Outgoing) {
        self.queue.push_back(message);
    }

    /// True if messages have not left.
    pub(super) fn has_more(&self) -> bool {
        !self.queue.is_empty()
    }

    /// True if an answer is under way whose next piece has its time.
    pub(super) fn is_paced(&self) -> bool {
        self.by_card && self.queue.len() > 1
    }

    /// Takes the next packet, if one may leave.
    pub(super) fn next_packet(&mut self, mtu: u64) -> Option<Next> {
        let is_full = match self.by_card {
            true => self.piece >= PIECE,
            false => self.under_way >= WINDOW,
        };
        let message = self.queue.front_mut().filter(|_| !is_full)?;
        let bytes = (message.bytes - message.sent).min(mtu);
        message.sent += bytes;
        let (id, is_inline) = (message.id, message.is_inline);
        let is_last = message.sent == message.bytes;
        if is_last {
            self.queue.pop_front();
        }
        let mut acknowledges = 0;
        if self.by_card {
            // A piece is of one answer.
            self.piece = if is_last { 0 } else { self.piece + 1 };
        } else {
            self.under_way += 1;
            self.unasked += 1;
            if is_last || self.unasked >= ACK_EVERY {
                acknowledges = std::mem::take(&mut self.unasked);
            }
        }
        Some(Next {
            bytes,
            is_inline,
            ends: is_last.then_some(id),
            acknowledges,
        })
    }
}
