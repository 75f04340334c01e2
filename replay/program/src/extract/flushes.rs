//! Flushes of accesses to windows.
//!
//! A call that completes accesses at their targets flushes each target that its process has accessed since the last such call. MPICH over UCX writes and
//! reads contiguous data by the transport, whose flush is a separate round trip; all other accesses are messages that the target's library answers. Used
//! by `operations`.

use std::collections::{BTreeMap, BTreeSet};

use belljar_job::ProcessKey;
use belljar_mpi::{Access, CallKind, Object};
use belljar_trace::{Datatype, Direction, Event, Phase, Transfer, TransferKind};

use super::ReturnedCall;
use crate::program::{AccessCompletion, ChannelId, ProcessId, Program};

/// Channels of accesses that are incomplete at the target, by process and window.
#[derive(Debug, Default)]
pub(super) struct Flushes(BTreeMap<(ProcessKey, Option<u32>), BTreeSet<ChannelId>>);

impl Flushes {
    /// Records an access to the process at a channel's end.
    pub(super) fn accessed(&mut self, call: ReturnedCall<'_>, channel: ChannelId) {
        let own = self.0.entry((call.key.0, window(call.event))).or_default();
        own.insert(channel);
    }

    /// Takes the channels that a call flushes, only to `target` if it names one.
    pub(super) fn ended(
        &mut self,
        call: ReturnedCall<'_>,
        target: Option<ProcessId>,
        program: &Program,
    ) -> Vec<ChannelId> {
        let place = (call.key.0, window(call.event));
        let Some(own) = self.0.get_mut(&place).filter(|_| flushes(call.event)) else {
            return Vec::new();
        };
        let ends = |channel: &ChannelId| {
            target.is_none_or(|target| program.channels[*channel as usize].to == target)
        };
        let ended = own.extract_if(.., ends).collect();
        if own.is_empty() {
            self.0.remove(&place);
        }
        ended
    }
}

/// Returns the process's own number of the window that a call names.
fn window(event: &Event) -> Option<u32> {
    event.details.0.as_ref()?.window
}

/// True if a call completes accesses at their targets.
fn flushes(event: &Event) -> bool {
    let meaning = event.meaning();
    let epoch = meaning.epoch();
    epoch.is_some_and(belljar_mpi::Epoch::ends_accesses_at_targets)
        || meaning.kind == CallKind::Free(Object::Window)
}

/// Returns the bytes fetched by an access that also sends; `None` for all others.
pub(super) fn fetched(event: &Event) -> Option<u64> {
    let mut transfers = event.transfers.iter().filter(|it| it.is_access());
    let sends = transfers.any(|it| it.direction == Direction::Send);
    let mut fetched = event.transfers.iter();
    let fetched = fetched.find(|it| it.is_access() && it.direction == Direction::Receive);
    fetched.filter(|_| sends).map(|it| it.bytes)
}

/// Returns the completion of an access at its target.
pub(super) fn completion(transfer: &Transfer) -> AccessCompletion {
    let TransferKind::Access(access) = transfer.kind else {
        return AccessCompletion::Answer;
    };
    let contiguous = !matches!(transfer.datatype, Datatype::Derived { .. });
    let by_transport = matches!(access, Access::Put | Access::Get) && contiguous;
    match (by_transport, transfer.phase) {
        (true, _) => AccessCompletion::Flush,
        (false, Phase::Begun) => AccessCompletion::Request,
        (false, _) => AccessCompletion::Answer,
    }
}
