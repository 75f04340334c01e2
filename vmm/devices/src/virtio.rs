//! virtio-mmio, version 2 (modern), and the devices behind it: block, net,
//! entropy and console (Virtual I/O Device specification 1.2).
//!
//! A device does its work at the guest's queue notification, at once and in no
//! virtual time; only a disk's answers take as long as its latency says.

/// virtio-blk: requests are answered a fixed latency after their notification, in order.
mod block;
/// A descriptor chain, checked as a whole before a device touches it.
mod chain;
/// virtio-console: the one port `hvc0`, bytes in and bytes out.
mod console;
/// What a virtio block device stores.
mod disk;
/// virtio-rng: random bytes from the scenario's seed.
mod entropy;
/// The register window of a virtio-mmio device, version 2.
mod mmio;
/// virtio-net: Ethernet frames in and out, with checksum and segmentation offloads.
mod net;
/// One virtqueue: rust-vmm's ring with every chain checked before use.
mod queue;
/// The register window of a device as the node's buses see it.
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
pub use window::Window;

/// What stopped a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The guest's driver broke the rules of its queue: the device waits for a reset.
    #[error("the guest's driver broke its queue: {0}")]
    Guest(#[from] QueueError),
    /// The host failed the device; the simulation cannot continue.
    #[error("a device's host file failed: {0}; check that the image is readable and unchanged")]
    Host(#[from] io::Error),
}

/// One kind of virtio device behind [`Mmio`].
///
/// ```
/// use belljar_cpu::{Cycles, GuestRam};
/// use belljar_devices::virtio::{Device, DeviceError, Mmio, Virtqueue, Window};
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

    /// What of the device changes while it works.
    type State: Serialize + DeserializeOwned;

    /// The device's state; what it is made from is left out.
    fn save(&self) -> Self::State;

    /// Takes over the state of another device of the same make; `None` when it is none
    /// that this one could get into over `ram`. A driver knows the device if it is `live`:
    /// only then does it have to be made as the other was.
    fn load(&mut self, saved: Self::State, live: bool, ram: &GuestRam) -> Option<()>;

    /// The device-specific feature bits that it offers.
    fn features(&self) -> u64;

    /// Takes the feature bits that the driver accepted of those offered.
    fn accept(&mut self, _features: u64) {}

    /// The device's configuration space.
    fn config(&self) -> Vec<u8>;

    /// The driver has made buffers available in `queues[queue]`.
    ///
    /// # Errors
    /// When the driver broke its queue, or the host failed.
    fn notify(
        &mut self,
        queue: usize,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        now: Cycles,
    ) -> Result<(), DeviceError>;

    /// When the device has something to do of its own.
    fn deadline(&self) -> Option<Cycles> {
        None
    }

    /// Does what was due at or before `now`.
    ///
    /// # Errors
    /// When the driver broke its queue, or the host failed.
    fn advance(
        &mut self,
        _queues: &mut [Virtqueue],
        _ram: &GuestRam,
        _now: Cycles,
    ) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Forgets what belongs to the driver's session.
    fn reset(&mut self) {}
}

/// A guest's driver, for the tests.
#[cfg(test)]
mod driver;
