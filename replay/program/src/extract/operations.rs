//! Conversion of a trace's operations to the program's.
//!
//! An operation takes its arguments from the event of the call that begins it. Synchronisations of windows become messages
//! without data on separate channels, with tags below all of MPI. Used by `extract` for each operation of a call that
//! returned.

use belljar_job::{
    Fact, Locking as Told, Operation as Begun, OperationId, Origin, Signal, WindowId,
};
use belljar_mpi::SendMode;
use belljar_trace::{Datatype, Direction, Transfer};

use super::calls::meeting_times;
use super::flushes::{completion, fetched};
use super::wildcards::Wildcard;
use super::{Extractor, OpenOperation, ReturnedCall};
use crate::program::{ChannelId, Locking, Operation, Slot};

/// The tag of accesses; tags of epochs follow it, two for each window of a communicator.
const ACCESS: i32 = i32::MIN;

/// Returns the tag of a notice between epochs of a window.
fn tag(window: WindowId, signal: Signal) -> i32 {
    let first = ACCESS
        .saturating_add(1)
        .saturating_add_unsigned(window.sequence.min(1 << 20) * 2);
    match signal {
        Signal::Exposed => first,
        Signal::Accessed => first + 1,
    }
}

/// True if the data of a transfer is noncontiguous, by a datatype of the program.
fn pieces(transfer: &Transfer) -> bool {
    matches!(transfer.datatype, Datatype::Derived { .. })
}

impl Extractor<'_> {
    /// Handles a call that begins an operation.
    pub(super) fn begin(
        &mut self,
        call: ReturnedCall<'_>,
        operation: OperationId,
        origin: Origin,
        what: Begun,
    ) -> Option<OpenOperation> {
        let transfer = match origin {
            Origin::Transfer(index) => call.event.transfers.get(index),
            _ => None,
        };
        match what {
            Begun::Send {
                channel,
                partitioned,
            } => {
                let channel = self.shared.channel(channel);
                match partitioned {
                    Some(_) => self.send_partitioned(call, transfer?, channel),
                    None => self.send(call, transfer?, channel),
                }
            }
            Begun::Receive { .. } => self.receive(call, transfer?, operation, what),
            Begun::Collective { meeting, .. } => {
                let Origin::Collective(index) = origin else {
                    return None;
                };
                let told = &call.event.collectives[index];
                let part = self
                    .shared
                    .take_part(&mut self.expansion, call.event, told, meeting);
                self.take_part(call, part)
            }
            Begun::Meeting { meeting, number } => {
                let times = meeting_times(call.event)?;
                let part = self.shared.meet(call.event, number, meeting, times);
                part.and_then(|part| self.take_part(call, Some(part)))
            }
            Begun::Access {
                communicator,
                target,
            } => {
                let ends = (call.member, target);
                let channel = self.shared.channel_of(communicator, ends.0, ends.1, ACCESS);
                self.access(call, transfer?, channel)
            }
            Begun::Lock { .. } | Begun::Signal { .. } | Begun::Await { .. } => {
                self.synchronize(call, what)
            }
        }
    }

    /// Adds an operation to the thread of a call.
    fn add(
        &mut self,
        call: ReturnedCall<'_>,
        operation: impl FnOnce(Slot) -> Operation,
    ) -> Option<OpenOperation> {
        let thread = self.threads.get_mut(&call.key)?;
        let (at, slot) = (thread.next(), thread.slot());
        thread.push(operation(slot));
        Some(OpenOperation {
            thread: call.key,
            slot,
            at,
            message: None,
        })
    }

    fn send(
        &mut self,
        call: ReturnedCall<'_>,
        transfer: &Transfer,
        channel: ChannelId,
    ) -> Option<OpenOperation> {
        self.add(call, |slot| Operation::Send {
            channel,
            slot,
            bytes: transfer.bytes,
            mode: transfer.mode(),
            pieces: pieces(transfer),
        })
    }

    /// Begins a message in partitions, without a ready partition. MPICH sends it as a whole as soon as all partitions are
    /// ready.
    fn send_partitioned(
        &mut self,
        call: ReturnedCall<'_>,
        transfer: &Transfer,
        channel: ChannelId,
    ) -> Option<OpenOperation> {
        let all = &mut self.shared.program.partitioned;
        let message = all.len() as u32;
        all.push(0);
        let open = self.add(call, |slot| Operation::SendPartitioned {
            channel,
            slot,
            bytes: transfer.bytes,
            message,
            pieces: pieces(transfer),
        })?;
        let message = Some(message);
        Some(OpenOperation { message, ..open })
    }

    /// Handles a posted receive; with a wildcard it has no channel yet.
    fn receive(
        &mut self,
        call: ReturnedCall<'_>,
        transfer: &Transfer,
        operation: OperationId,
        what: Begun,
    ) -> Option<OpenOperation> {
        let Begun::Receive {
            communicator,
            to,
            wanted,
            ..
        } = what
        else {
            return None;
        };
        let pieces = pieces(transfer);
        if let (Some(from), Some(tag)) = (wanted.from, wanted.tag) {
            let channel = self.shared.channel_of(communicator, from, to, tag);
            return self.add(call, |slot| Operation::Receive {
                channel,
                slot,
                pieces,
            });
        }
        let open = self.add(call, |slot| Operation::Nothing { slot })?;
        let wildcard = Wildcard {
            open,
            communicator,
            to,
            wanted,
            pieces,
        };
        self.wildcards.insert(operation, wildcard);
        Some(open)
    }

    fn take_part(
        &mut self,
        call: ReturnedCall<'_>,
        part: Option<(u32, u32)>,
    ) -> Option<OpenOperation> {
        let Some((collective, part)) = part else {
            self.shared.program.unknown.collectives += 1;
            return None;
        };
        self.add(call, |slot| Operation::Collective {
            collective,
            part,
            slot,
        })
    }

    /// Handles an access to another process's memory. An access that sends and fetches has two transfers.
    fn access(
        &mut self,
        call: ReturnedCall<'_>,
        transfer: &Transfer,
        channel: ChannelId,
    ) -> Option<OpenOperation> {
        let fetched = fetched(call.event);
        let (sent, received) = match (transfer.direction, fetched) {
            (Direction::Send, fetched) => (transfer.bytes, fetched.unwrap_or(0)),
            (Direction::Receive, Some(_)) => return None,
            (Direction::Receive, None) => (0, transfer.bytes),
        };
        self.flushes.accessed(call, channel);
        let completion = completion(transfer);
        self.add(call, |slot| Operation::Access {
            channel,
            slot,
            sent,
            received,
            completion,
        })
    }

    /// Adds the flushes of a call that completes accesses at their targets.
    pub(super) fn flush(&mut self, call: ReturnedCall<'_>) {
        let target = self.operations.target(call.event);
        let target = target.map(|target| self.shared.process(target));
        let channels = self.flushes.ended(call, target, &self.shared.program);
        if let Some(thread) = self.threads.get_mut(&call.key) {
            for channel in channels {
                thread.push(Operation::Flush { channel });
            }
        }
    }

    /// Handles a lock, or a notice between epochs.
    fn synchronize(&mut self, call: ReturnedCall<'_>, what: Begun) -> Option<OpenOperation> {
        let own = call.member;
        match what {
            Begun::Lock {
                window,
                target,
                how,
            } => {
                let communicator = window.communicator;
                let channel = self.shared.channel_of(communicator, own, target, ACCESS);
                let window = self.shared.window(window);
                let how = match how {
                    Told::Exclusive => Locking::Exclusive,
                    Told::Shared => Locking::Shared,
                    Told::Release => Locking::Release,
                };
                self.add(call, |slot| Operation::Lock {
                    channel,
                    slot,
                    window,
                    how,
                })
            }
            Begun::Signal { window, to, signal } => {
                let tag = tag(window, signal);
                let channel = self.shared.channel_of(window.communicator, own, to, tag);
                self.add(call, |slot| Operation::Send {
                    channel,
                    slot,
                    bytes: 0,
                    mode: SendMode::Buffered,
                    pieces: false,
                })
            }
            Begun::Await {
                window,
                from,
                signal,
            } => {
                let tag = tag(window, signal);
                let communicator = window.communicator;
                let channel = self.shared.channel_of(communicator, from, own, tag);
                self.add(call, |slot| Operation::Receive {
                    channel,
                    slot,
                    pieces: false,
                })
            }
            _ => None,
        }
    }

    /// Handles a call that marks a partition ready, or that found a partition or a message.
    pub(super) fn ask(&mut self, call: ReturnedCall<'_>, fact: &Fact) {
        let operation = match fact {
            Fact::Ready { send } => {
                let open = self.open.get(send);
                let Some(message) = open.and_then(|open| open.message) else {
                    return;
                };
                self.shared.program.partitioned[message as usize] += 1;
                Operation::Ready { message }
            }
            Fact::Arrived { receive } => {
                let open = self.open.get(receive);
                // A slot belongs to its thread.
                let Some(open) = open.filter(|open| open.thread == call.key) else {
                    return;
                };
                Operation::Test { slot: open.slot }
            }
            Fact::Probed { channel } => Operation::Probe {
                channel: self.shared.channel(*channel),
            },
            _ => return,
        };
        if let Some(thread) = self.threads.get_mut(&call.key) {
            thread.push(operation);
        }
    }
}
