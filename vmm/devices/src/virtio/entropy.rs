//! virtio-rng: random bytes from the scenario's seed.
//!
//! The bytes depend on the seed, the node's number and the number of bytes drawn, never on the
//! host. `Device::notify` answers at once; a clone has a stream of its own.

use belljar_cpu::{Cycles, GuestRam};
use belljar_sim::Random;
use serde::{Deserialize, Serialize};

use super::{Device, DeviceError, Virtqueue};

/// The largest number of bytes for one request; a driver requests more if needed.
const MOST: u64 = 64 * 1024;

/// A source of entropy, endless and the same in every run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entropy(Random);

impl Entropy {
    /// Draws from `random`, which should be exclusive to this device.
    pub fn new(random: Random) -> Self {
        Self(random)
    }
}

impl Device for Entropy {
    const KIND: u32 = 4;
    const QUEUES: &'static [u16] = &[64];

    type State = Self;

    fn save(&self) -> Self {
        self.clone()
    }

    fn load(&mut self, saved: Self, _live: bool, _ram: &GuestRam) -> Option<()> {
        *self = saved;
        Some(())
    }

    fn features(&self) -> u64 {
        0
    }

    fn config(&self) -> Vec<u8> {
        Vec::new()
    }

    fn notify(
        &mut self,
        _queue: usize,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        _now: Cycles,
    ) -> Result<(), DeviceError> {
        let Some(queue) = queues.first_mut() else {
            return Ok(());
        };
        while let Some(chain) = queue.pop(ram)? {
            let mut bytes = vec![0; chain.writable_len().min(MOST) as usize];
            self.0.fill(&mut bytes);
            let written = chain.write(ram, 0, &bytes).map_or(0, |()| bytes.len());
            queue.finish(ram, &chain, written as u32)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtio::Mmio;
    use crate::virtio::driver::{ChainBuffer, Driver};
    use belljar_sim::Seed;

    #[test]
    fn the_bytes_are_the_stream_s_and_bounded() {
        let random = Random::new(Seed(9), "virtio-rng", 3);
        let mut driver = Driver::start(Mmio::new(Entropy::new(random.clone())));
        let used = driver.submit(0, &[ChainBuffer::Room(40)]);
        assert_eq!(used, Some(40));
        let mut expected = [0; 40];
        random.clone().fill(&mut expected);
        assert_eq!(driver.written(0, 40), expected);
        assert_eq!(
            driver.submit(0, &[ChainBuffer::Room(100_000)]),
            Some(65_536)
        );
        assert_eq!(driver.submit(0, &[ChainBuffer::Data(&[1, 2, 3])]), Some(0));
    }
}
