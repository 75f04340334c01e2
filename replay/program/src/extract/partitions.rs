//! Messages that are sent when all of their partitions are ready (MPI-4.0, 4).
//!
//! MPICH sends such a message as a whole as soon as all of its partitions are ready, whichever threads make them so; so a message is begun when its
//! request is started, and leaves with the last call that makes partitions of it ready. Called by `extract`.

use std::collections::BTreeMap;

use belljar_analysis::ProcessKey;
use belljar_mpi::CallKind;
use belljar_trace::Event;

use super::{Extractor, Open, ThreadKey};
use crate::program::{ChannelId, Operation};

/// Partitioned requests that were started, by the process's own numbers.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    /// Those that send, with the number of the message.
    sends: BTreeMap<(ProcessKey, u32), u32>,
    /// Those that receive.
    receives: BTreeMap<(ProcessKey, u32), Open>,
}

impl Partitions {
    /// A request that receives was started; nothing if it is not partitioned.
    pub(super) fn receives(&mut self, process: ProcessKey, number: Option<u32>, open: Open) {
        if let Some(number) = number {
            self.receives.insert((process, number), open);
        }
    }
}

/// The number of the partitioned request that the call's transfer of this index belongs to, in a call that starts it.
pub(super) fn partitioned(event: &Event, index: usize) -> Option<u32> {
    let all = &event.details.0.as_ref()?.partitioned;
    // Each request has one operation; else the trace does not map requests to transfers.
    let operations = event.transfers.len() + event.collectives.len();
    let told = all.len() == event.transfers.len() && event.started.len() == operations;
    *all.get(index).filter(|_| told)?
}

impl Extractor<'_> {
    /// A partitioned message is begun, none of whose partitions is ready.
    pub(super) fn send_partitioned(
        &mut self,
        key: ThreadKey,
        number: u32,
        channel: ChannelId,
        (bytes, pieces): (u64, bool),
    ) -> Option<Open> {
        let all = &mut self.shared.program.partitioned;
        let message = all.len() as u32;
        all.push(0);
        self.partitions.sends.insert((key.0, number), message);
        self.begin(key, |slot| Operation::SendPartitioned {
            channel,
            slot,
            bytes,
            message,
            pieces,
        })
    }

    /// A call that makes partitions ready, or that found one arrived.
    pub(super) fn ready(&mut self, event: &Event, key: ThreadKey) {
        let Some(details) = &event.details.0 else {
            return;
        };
        let ([Some(number)], Some(thread)) =
            (details.partitioned.as_slice(), self.threads.get_mut(&key))
        else {
            return;
        };
        let request = (key.0, *number);
        if event.meaning().kind == CallKind::Ready {
            if let Some(&message) = self.partitions.sends.get(&request) {
                self.shared.program.partitioned[message as usize] += 1;
                thread.push(Operation::Ready { message });
            }
        } else if details.over
            && let Some(open) = self.partitions.receives.get(&request)
            // A slot is its thread's.
            && open.thread == key
        {
            thread.push(Operation::Test { slot: open.slot });
        }
    }
}
