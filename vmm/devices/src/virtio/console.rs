//! virtio-console: the one port `hvc0`, bytes in and bytes out.
//!
//! Bytes are neither lost nor reordered in either direction: input waits for the guest's buffers,
//! output for the host to take it. A node has one control console, and one console for each output
//! stream.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use belljar_cpu::{Cycles, GuestRam};

use super::{Device, DeviceError, QueueError, Virtqueue};

const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

/// The largest number of bytes in a chain.
const MOST: u64 = 1 << 20;

/// A console.
#[derive(Debug, Default)]
pub struct Console {
    input: VecDeque<u8>,
    output: Vec<u8>,
}

/// The saved state of a console.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConsoleState {
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Console {
    /// A console without input.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the guest's output since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// True if there is output of the guest that was not taken yet.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Keeps `bytes` until a driver sets up the device.
    pub fn hold(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
    }

    /// Types `bytes`; they wait until the guest has buffers for them.
    ///
    /// # Errors
    /// If the driver broke its queue.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        queues: &mut [Virtqueue],
        ram: &GuestRam,
    ) -> Result<(), DeviceError> {
        self.hold(bytes);
        self.hand_over(queues, ram)
    }

    fn hand_over(&mut self, queues: &mut [Virtqueue], ram: &GuestRam) -> Result<(), DeviceError> {
        let Some(queue) = queues.get_mut(RECEIVE) else {
            return Ok(());
        };
        while !self.input.is_empty() {
            let Some(chain) = queue.pop(ram)? else {
                return Ok(());
            };
            let count = chain.writable_len().min(self.input.len() as u64) as usize;
            let bytes: Vec<u8> = self.input.drain(..count).collect();
            let written = chain.write(ram, 0, &bytes).map_or(0, |()| count);
            queue.finish(ram, &chain, written as u32)?;
        }
        Ok(())
    }

    fn transmit(&mut self, queues: &mut [Virtqueue], ram: &GuestRam) -> Result<(), DeviceError> {
        let Some(queue) = queues.get_mut(TRANSMIT) else {
            return Ok(());
        };
        while let Some(chain) = queue.pop(ram)? {
            let len = chain.readable_len();
            if len > MOST {
                let expected = "console output of at most 1 MiB";
                return Err(QueueError::Shape {
                    head: chain.head(),
                    expected,
                }
                .into());
            }
            self.output
                .extend(chain.read(ram, 0..len).unwrap_or_default());
            queue.finish(ram, &chain, 0)?;
        }
        Ok(())
    }
}

impl Device for Console {
    const KIND: u32 = 3;
    const QUEUES: &'static [u16] = &[128, 128];

    type State = ConsoleState;

    fn save(&self) -> ConsoleState {
        ConsoleState {
            input: self.input.clone().into(),
            output: self.output.clone(),
        }
    }

    fn load(&mut self, saved: ConsoleState, _live: bool, _ram: &GuestRam) -> Option<()> {
        self.input = saved.input.into();
        self.output = saved.output;
        Some(())
    }

    fn features(&self) -> u64 {
        0
    }

    /// Columns and rows (neither is offered), one port, no emergency write.
    fn config(&self) -> Vec<u8> {
        vec![0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    }

    fn notify(
        &mut self,
        queue: usize,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        _now: Cycles,
    ) -> Result<(), DeviceError> {
        match queue {
            RECEIVE => self.hand_over(queues, ram),
            _ => self.transmit(queues, ram),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtio::driver::{ChainBuffer, Driver};
    use crate::virtio::{Mmio, RegisterWindow};

    #[test]
    fn bytes_go_out_and_come_in() {
        let mut driver = Driver::start(Mmio::new(Console::new()));
        assert_eq!(
            driver.submit(
                1,
                &[ChainBuffer::Data(b"hello "), ChainBuffer::Data(b"out")]
            ),
            Some(0)
        );
        assert_eq!(driver.mmio.device_mut().take_output(), b"hello out");
        driver.type_in(b"typed");
        assert_eq!(driver.submit(0, &[ChainBuffer::Room(3)]), Some(3));
        assert_eq!(driver.written(0, 3), b"typ");
        assert_eq!(driver.submit(0, &[ChainBuffer::Room(9)]), Some(2));
        assert_eq!(driver.written(0, 2), b"ed");
        assert_eq!(
            driver.submit(0, &[ChainBuffer::Room(9)]),
            None,
            "kept for later input"
        );
        assert!(driver.mmio.complaint().is_none());
    }

    impl Driver<Console> {
        fn type_in(&mut self, bytes: &[u8]) {
            let ram = self.ram.clone();
            self.mmio
                .drive(&ram, |console, queues| console.receive(bytes, queues, &ram))
                .unwrap();
        }
    }
}
