//! Bytes that a call sent and received.
//!
//! Messages count at the call of the send and at the completion of the receive, collective operations at each of their
//! calls. Used by analyses that sum calls up.

use belljar_trace::{Direction, Event, Phase};

use belljar_job::Communicators;

/// The bytes that a call moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Bytes that left the caller's buffers.
    pub(crate) sent: u64,
    /// Bytes that entered the caller's buffers.
    pub(crate) received: u64,
    /// The part of `received` that is sizes of buffers, as the program requested no status.
    pub(crate) inexact: u64,
    /// Collective operations whose bytes the trace does not contain; they count as 0.
    pub(crate) unresolved: u64,
}

impl Volume {
    /// Returns the volume of an event; empty for a call that did not return.
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
