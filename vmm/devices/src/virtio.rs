//! virtio-mmio, version 2 (modern), and the devices behind it: block, net,
//! entropy and console (Virtual I/O Device specification 1.2).
//!
//! A device processes a queue at the guest's notification, immediately and in no virtual time; only
//! a disk completes requests after its latency.

/// virtio-blk: requests complete a fixed latency after their notification, in order.
mod block;
/// A descriptor chain, checked as a whole before a device touches it.
mod chain;
/// virtio-console: the one port `hvc0`, bytes in and bytes out.
mod console;
/// The contents of a virtio block device.
mod disk;
/// virtio-rng: random bytes from the scenario's seed.
mod entropy;
/// The register window of a virtio-mmio device, version 2.
mod mmio;
/// virtio-net: Ethernet frames in and out, with checksum and segmentation offloads.
mod net;
/// A virtqueue: rust-vmm's ring, with every chain checked before use.
mod queue;
/// The register window of a device, as the node's buses access it.
mod window;

use std::io;

use belljar_cpu::{Cycles, GuestRam};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use block::{Block, BlockState, SECTOR};
pub use chain::Chain;
pub use console::{Console, ConsoleState};
pub use disk::{Disk, DiskError, Written};
pub use entropy::Entropy;
pub use mmio::{Mmio, MmioState, WINDOW_SIZE};
pub use net::{Net, NetCounters, NetLink, NetState, Offloads};
pub use queue::{QueueError, QueueState, Virtqueue};
pub use window::RegisterWindow;

/// Errors of a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The guest's driver violated the queue's rules: the device waits for a reset.
    #[error("the guest's driver broke its queue: {0}")]
    Guest(#[from] QueueError),
    /// The host failed the device; the simulation cannot continue.
    #[error("a device's host file failed: {0}; check that the image is readable and unchanged")]
    Host(#[from] io::Error),
}

/// A kind of virtio device behind [`Mmio`].
///
/// ```
/// use belljar_cpu::{Cycles, GuestRam};
/// use belljar_devices::virtio::{Device, DeviceError, Mmio, RegisterWindow, Virtqueue};
///
/// /// A device that is there and does nothing.
/// struct Idle;
///
/// impl Device for Idle {
///     const KIND: u32 = 42;
///     const QUEUES: &'static [u16] = &[64];
///     type State = ();
///
///     fn save(&self) {}
///
///     fn load(&mut self, (): (), _live: bool, _ram: &GuestRam) -> Option<()> {
///         Some(())
///     }
///
///     fn features(&self) -> u64 {
///         0
///     }
///
///     fn config(&self) -> Vec<u8> {
///         Vec::new()
///     }
///
///     fn notify(
///         &mut self,
///         _queue: usize,
///         _queues: &mut [Virtqueue],
///         _ram: &GuestRam,
///         _now: Cycles,
///     ) -> Result<(), DeviceError> {
///         Ok(())
///     }
/// }
///
/// // The register DeviceID, as a driver reads it first.
/// assert_eq!(Mmio::new(Idle).read(8, 4), 42);
/// ```
pub trait Device: Send {
    /// The device type's number in the specification.
    const KIND: u32;
    /// The largest size of each queue.
    const QUEUES: &'static [u16];

    /// The saved state of the device.
    type State: Serialize + DeserializeOwned;

    /// The device's state, without its configuration.
    fn save(&self) -> Self::State;

    /// Loads the state of another device of the same configuration; `None` if it is invalid for
    /// this one over `ram`. The configurations must only agree if the state is `live`, that is, if
    /// a driver has used the device.
    fn load(&mut self, saved: Self::State, live: bool, ram: &GuestRam) -> Option<()>;

    /// The device-specific feature bits that it offers.
    fn features(&self) -> u64;

    /// Sets the offered feature bits that the driver accepted.
    fn accept(&mut self, _features: u64) {}

    /// The device's configuration space.
    fn config(&self) -> Vec<u8>;

    /// Handles the driver's notification of new buffers in `queues[queue]`.
    ///
    /// # Errors
    /// If the driver broke its queue, or the host failed.
    fn notify(
        &mut self,
        queue: usize,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        now: Cycles,
    ) -> Result<(), DeviceError>;

    /// The time of the device's next own event.
    fn deadline(&self) -> Option<Cycles> {
        None
    }

    /// Handles events due at or before `now`.
    ///
    /// # Errors
    /// If the driver broke its queue, or the host failed.
    fn advance(
        &mut self,
        _queues: &mut [Virtqueue],
        _ram: &GuestRam,
        _now: Cycles,
    ) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Discards the state of the driver's session.
    fn reset(&mut self) {}
}

/// A guest's driver, for the tests.
#[cfg(test)]
mod driver;
