//! Bytes that a call sent and received.
//!
//! Those of messages count where the send is called and where the receive is completed, those of collective
//! operations in each of their calls. Called by analyses that sum calls up.

use belljar_trace::{Direction, Event, Phase};

use belljar_job::Communicators;

/// What a call moved, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Bytes that went out of the caller's buffers.
    pub(crate) sent: u64,
    /// Bytes that came into them.
    pub(crate) received: u64,
    /// How many of these are the room for them, as the program asked for no status.
    pub(crate) inexact: u64,
    /// Collective operations whose bytes the trace does not tell; they count as 0.
    pub(crate) unresolved: u64,
}

impl Volume {
    /// That of an event; nothing for a call that did not return.
    pub(crate) fn of(event: &Event, communicators: &Communicators) -> Self {
        let mut volume = Self::default();
        if event.exit.is_none() {
            return volume;
        }
        for transfer in &event.transfers {
            match (transfer.direction, transfer.phase) {
                (Direction::Send, Phase::Done | Phase::Begun) => {
                    volume.sent = volume.sent.saturating_add(transfer.bytes);
                }
                (Direction::Receive, Phase::Done) => {
                    volume.receive(transfer.bytes, transfer.exact);
                }
                _ => {}
            }
        }
        for completion in &event.completed {
            volume.receive(completion.received, completion.exact);
        }
        for collective in &event.collectives {
            if collective.phase == Phase::Prepared {
                continue;
            }
            let (out, into) = communicators.volume(event, collective);
            volume.unresolved += u64::from(out.is_none() || into.is_none());
            volume.sent = volume.sent.saturating_add(out.unwrap_or(0));
            volume.receive(into.unwrap_or(0), true);
        }
        volume
    }

    fn receive(&mut self, bytes: u64, exact: bool) {
        self.received = self.received.saturating_add(bytes);
        if !exact {
            self.inexact = self.inexact.saturating_add(bytes);
        }
    }
}
