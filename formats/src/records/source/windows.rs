//! Windows, and accesses to them.
//!
//! A window has records at its creation and freeing, and every access names one. Used by the source for each call that
//! names a window.

use belljar_job::WindowId;
use belljar_mpi::{CallKind, Object};
use belljar_trace::{Direction, Transfer, TransferKind};

use super::Source;
use crate::records::calls::{ExportedCall, Record};

impl Source {
    /// Adds the window that a call creates or frees.
    pub(super) fn windows(&mut self, call: &mut ExportedCall, window: Option<WindowId>) {
        let makes = match call.event.meaning().kind {
            CallKind::Free(Object::Window) => false,
            CallKind::Make(Object::Window) => true,
            _ => return,
        };
        let details = call.event.details.0.as_ref();
        if details.is_none_or(|details| details.window.is_none()) {
            return;
        }
        if !makes {
            let freed = window.and_then(|window| self.places.window(window));
            call.begun.extend(freed.map(Record::WindowFreed));
            return;
        }
        let process = (call.event.node, call.event.process);
        let number = call.event.communicator;
        let group = number.and_then(|it| self.places.group(&self.communicators, process, it));
        let made = window.zip(group);
        match made.and_then(|(window, group)| self.places.window_made(window, group)) {
            Some(window) => call.done.push(Record::WindowMade(window)),
            None => self.left_out.communicators += 1,
        }
    }

    /// Adds an access to another process's memory.
    pub(super) fn access(&mut self, call: &mut ExportedCall, transfer: &Transfer) {
        let window = self.operations.window(&call.event);
        let Some(window) = window.and_then(|window| self.places.window(window)) else {
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
        // An access that puts and gets has two transfers.
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
