//! Windows, and accesses to them.
//!
//! All members of a communicator make its windows in the same order, so a window is known by the communicator and by how
//! many were made on that before. Called by the source for each call that names one.

use belljar_mpi::{CallKind, Object};
use belljar_trace::{Direction, Transfer, TransferKind};

use super::Source;
use crate::calls::{Call, Record};

impl Source {
    /// Windows that it makes and frees.
    pub(super) fn windows(&mut self, call: &mut Call) {
        let details = call.event.details.0.as_ref();
        let Some(own) = details.and_then(|details| details.window) else {
            return;
        };
        match call.event.meaning().kind {
            CallKind::Free(Object::Window) => {
                if let Some(window) = self.places.window_freed(call.process, own) {
                    call.begun.push(Record::WindowFreed(window));
                }
            }
            CallKind::Make(Object::Window) => {
                let process = (call.event.node, call.event.process);
                let number = call.event.communicator;
                let group = number
                    .and_then(|number| self.places.group(&self.communicators, process, number));
                let made = group.and_then(|group| {
                    let places = &mut self.places;
                    places.window_made(call.process, own, group)
                });
                match made {
                    Some(window) => call.done.push(Record::WindowMade(window)),
                    None => self.left_out.communicators += 1,
                }
            }
            _ => {}
        }
    }

    /// An access to another process's memory.
    pub(super) fn access(&mut self, call: &mut Call, transfer: &Transfer) {
        let details = call.event.details.0.as_ref();
        let own = details.and_then(|details| details.window);
        let Some(window) = own.and_then(|own| self.places.window(call.process, own)) else {
            self.left_out.communicators += 1;
            return;
        };
        let Some((_, other)) = self.resolve(&call.event, transfer.communicator, transfer.peer)
        else {
            return;
        };
        let sends = transfer.direction == Direction::Send;
        let (out, back) = match sends {
            true => (transfer.bytes, 0),
            false => (0, transfer.bytes),
        };
        let TransferKind::Access(access) = transfer.kind else {
            return;
        };
        // One access that both gives and takes is told by two transfers.
        if let Some(Record::Accessed {
            sent,
            received,
            access: earlier,
            ..
        }) = call.begun.last_mut()
            && *earlier == access
        {
            *sent = sent.saturating_add(out);
            *received = received.saturating_add(back);
            return;
        }
        call.begun.push(Record::Accessed {
            access,
            window,
            other,
            sent: out,
            received: back,
        });
    }
}
