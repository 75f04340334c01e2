//! Messages in partitions: each leaves as a whole with its last partition, as MPICH sends them.
//!
//! Called by threads.

use belljar_mpi::SendMode;
use belljar_networks::Network;
use belljar_program::ChannelId;

use super::{Engine, Party};

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// A message on a channel that will leave when as many calls as are known have made its partitions ready.
    pub(super) fn send_partitioned(
        &mut self,
        now: u64,
        channel: ChannelId,
        party: Party,
        (bytes, pieces, partitioned): (u64, bool, u32),
    ) {
        let calls = self.program.partitioned[partitioned as usize];
        if calls == 0 {
            return self.send(now, channel, party, (bytes, SendMode::Standard, pieces));
        }
        let message = self.on_channel(channel, party, (bytes, SendMode::Standard, pieces));
        self.unready.insert(partitioned, (message, calls));
        self.sent(now, channel, message);
    }

    /// A call made some partitions of a message ready: with the last such call it leaves.
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
