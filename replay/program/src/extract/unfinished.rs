//! Calls that never returned in the trace.
//!
//! Their operations are not part of the program. A call that waits for a message or a meeting is listed, as in a deadlock. Used by
//! `extract`.

use super::{Extractor, ReturnedCall};
use crate::program::Unfinished;
use crate::thread::GrowingThread;

impl Extractor<'_> {
    /// Handles a call that was entered at `entry`, in picoseconds, and never returned.
    pub(super) fn unfinished(&mut self, call: ReturnedCall<'_>, entry: u64) {
        let ReturnedCall { event, member, key } = call;
        let program = &mut self.shared.program;
        program.unknown.unfinished += 1;
        let waits = !event.transfers.is_empty() || !event.collectives.is_empty();
        if waits && self.stopped.insert(key) {
            let calls = self.threads.get(&key).map_or(0, GrowingThread::calls);
            program.unfinished.push(Unfinished {
                job: member.job,
                rank: member.rank,
                call: u32::try_from(calls).unwrap_or(u32::MAX),
                function: event.function,
                entry,
            });
        }
    }
}
