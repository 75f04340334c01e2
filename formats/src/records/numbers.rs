//! Numbers of messages, equal at sender and receiver.
//!
//! The side whose position in its channel is known first assigns a message's number, and its partner takes it over. A
//! receive that completes before its position is known has no number. State is kept until both sides have their
//! records; its size is bounded by the job's operations. Used by the source.

use std::collections::BTreeMap;

use belljar_job::{Fact, Operation, OperationId};

/// A side of a message whose partner has no record yet.
#[derive(Clone, Copy, Debug, Default)]
struct UnpairedSide {
    number: Option<u64>,
    /// True if it has its record.
    recorded: bool,
    /// True if its partner has its record.
    paired: bool,
}

/// Numbers messages.
#[derive(Debug, Default)]
pub(crate) struct MessageNumbers {
    count: u64,
    sides: BTreeMap<OperationId, UnpairedSide>,
}

impl MessageNumbers {
    fn fresh(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Handles the begin of an operation; the `next` fact may match it. Returns the number of a message sent.
    pub(crate) fn begin(
        &mut self,
        operation: OperationId,
        what: &Operation,
        next: Option<&Fact>,
    ) -> Option<u64> {
        let number = match what {
            Operation::Send { .. } => {
                let receive = match next {
                    Some(Fact::Matched { send, receive }) if *send == operation => Some(receive),
                    _ => None,
                };
                let side = receive.and_then(|receive| self.sides.get(receive));
                let number = side.and_then(|side| side.number);
                Some(number.unwrap_or_else(|| self.fresh()))
            }
            Operation::Receive { .. } => None,
            _ => return None,
        };
        let side = UnpairedSide {
            number,
            recorded: number.is_some(),
            paired: false,
        };
        self.sides.insert(operation, side);
        number
    }

    /// Handles the known position of a receive; the `next` fact may match it.
    pub(crate) fn locate(&mut self, receive: OperationId, next: Option<&Fact>) {
        let matched = matches!(next, Some(Fact::Matched { receive: own, .. }) if *own == receive);
        if matched || !self.sides.contains_key(&receive) {
            return;
        }
        let number = self.fresh();
        if let Some(side) = self.sides.get_mut(&receive) {
            side.number = Some(number);
        }
    }

    /// Pairs a send and a receive.
    pub(crate) fn pair(&mut self, send: OperationId, receive: OperationId) {
        let sent = self.sides.remove(&send);
        let Some(received) = self.sides.get_mut(&receive) else {
            return;
        };
        if received.recorded {
            self.sides.remove(&receive);
            return;
        }
        received.number = sent.and_then(|sent| sent.number).or(received.number);
        received.paired = true;
    }

    /// Handles the record of a receive. Returns the number of its message, if it is known.
    pub(crate) fn receive(&mut self, receive: OperationId) -> Option<u64> {
        let side = self.sides.get_mut(&receive)?;
        let number = side.number;
        side.recorded = true;
        if side.paired || number.is_none() {
            self.sides.remove(&receive);
        }
        number
    }

    /// Handles a side that moves no message, or whose partner stays unknown.
    pub(crate) fn forget(&mut self, operation: OperationId) {
        self.sides.remove(&operation);
    }
}
