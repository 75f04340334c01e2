//! Messages in partitions: each leaves as a whole with its last partition, as MPICH sends them.
//!
//! Used by threads.

use belljar_mpi::SendMode;
use belljar_networks::Network;
use belljar_program::ChannelId;

use super::{Engine, Party};

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// Adds a message on a channel that leaves when the known number of calls have marked its partitions ready.
    pub(super) fn send_partitioned(
        &mut self,
        now: u64,
        channel: ChannelId,
        party: Party,
        bytes: u64,
        pieces: bool,
        partitioned: u32,
    ) {
        let calls = self.program.partitioned[partitioned as usize];
        if calls == 0 {
            return self.send(now, channel, party, bytes, SendMode::Standard, pieces);
        }
        let message = self.on_channel(channel, party, bytes, SendMode::Standard, pieces);
        self.unready.insert(partitioned, (message, calls));
        self.sent(now, channel, message);
    }

    /// Handles a call that marks partitions of a message ready; the last such call sends it.
    pub(super) fn ready(&mut self, now: u64, partitioned: u32) {
        let Some((message, calls)) = self.unready.get_mut(&partitioned) else {
            return;
        };
        *calls = calls.saturating_sub(1);
        if *calls == 0 {
            let message = *message;
            self.unready.remove(&partitioned);
            self.post(now, message);
        }
    }
}
