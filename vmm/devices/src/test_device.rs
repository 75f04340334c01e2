//! A device for tests of processors, like QEMU's `isa-debug-exit` and `pc-testdev`: a port that
//! ends the node, ports that echo writes, and memory that is accessed as a device.

use serde::{Deserialize, Serialize};

/// The exit device, four bytes: a write ends the node.
pub const EXIT_PORT: u16 = 0xf4;
/// First of the four ports that echo the last write.
const ECHO_PORT: u16 = 0xe0;
const ECHO_BYTES: usize = 4;
/// The memory's guest-physical address and size.
const MEMORY: u64 = 0xff00_0000;
const MEMORY_BYTES: usize = 0x1_0000;

/// The device's state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TestDevice {
    echo: [u8; ECHO_BYTES],
    memory: Vec<u8>,
}

impl Default for TestDevice {
    fn default() -> Self {
        Self {
            echo: [0; ECHO_BYTES],
            memory: vec![0; MEMORY_BYTES],
        }
    }
}

impl TestDevice {
    /// The byte behind `port`, if it is one of the device's ports.
    pub fn port(&mut self, port: u16) -> Option<&mut u8> {
        let offset = port.checked_sub(ECHO_PORT)?;
        self.echo.get_mut(usize::from(offset))
    }

    /// The `len` bytes of memory at guest-physical `addr`, if they belong to the device.
    fn at(&mut self, addr: u64, len: u8) -> Option<&mut [u8]> {
        let offset = usize::try_from(addr.checked_sub(MEMORY)?).ok()?;
        self.memory.get_mut(offset..offset.checked_add(len.into())?)
    }

    /// A load of up to 8 bytes; `None` if they do not belong to the device.
    pub fn load(&mut self, addr: u64, len: u8) -> Option<u64> {
        let bytes = self.at(addr, len.min(8))?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |value, &byte| value << 8 | u64::from(byte)),
        )
    }

    /// A store of the low `len` bytes of `value`, up to 8. Returns true if they belong to the
    /// device.
    pub fn store(&mut self, addr: u64, len: u8, value: u64) -> bool {
        let len = len.min(8);
        let Some(bytes) = self.at(addr, len) else {
            return false;
        };
        bytes.copy_from_slice(&value.to_le_bytes()[..usize::from(len)]);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_beyond() {
        let mut device = TestDevice::default();
        *device.port(0xe1).unwrap() = 7;
        assert_eq!(device.port(0xe1), Some(&mut 7));
        assert!(device.port(0xe4).is_none() && device.port(0xdf).is_none());
        assert!(device.store(MEMORY + 0xfff8, 8, 0x1122_3344_5566_7788));
        assert_eq!(device.load(MEMORY + 0xfffa, 2), Some(0x5566));
        assert_eq!(device.load(MEMORY + 0xffff, 2), None);
        assert!(!device.store(MEMORY - 1, 1, 0) && !device.store(u64::MAX, 8, 0));
    }
}
