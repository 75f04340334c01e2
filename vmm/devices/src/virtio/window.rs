//! The register window of a device, as the node's buses access it.
//!
//! `mmio` implements it for each virtio device; a node has its devices in the order of their windows.

use std::io;

use belljar_cpu::{Cycles, GuestRam};

use super::QueueError;

/// The bus's view of a device's registers.
///
/// ```
/// use belljar_devices::virtio::RegisterWindow;
///
/// /// Whether a driver finds a virtio device there: by the register MagicValue.
/// fn is_virtio(window: &dyn RegisterWindow) -> bool {
///     window.read(0, 4) == u64::from(u32::from_le_bytes(*b"virt"))
/// }
/// ```
pub trait RegisterWindow {
    /// A load of `len` bytes at `offset`.
    fn read(&self, offset: u64, len: u8) -> u64;

    /// A store of the low `len` bytes of `value` at `offset`.
    ///
    /// # Errors
    /// If the host fails the device.
    fn write(
        &mut self,
        offset: u64,
        len: u8,
        value: u64,
        ram: &GuestRam,
        now: Cycles,
    ) -> io::Result<()>;

    /// The level of the device's interrupt line.
    fn line(&self) -> bool;

    /// The time of the device's next own event.
    fn deadline(&self) -> Option<Cycles>;

    /// Handles events due at or before `now`.
    ///
    /// # Errors
    /// If the host fails the device.
    fn advance(&mut self, ram: &GuestRam, now: Cycles) -> io::Result<()>;

    /// The reason why the device needs a reset, after its driver violated the rules.
    fn complaint(&self) -> Option<&QueueError>;
}
