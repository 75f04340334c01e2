//! The register window of a device as the node's buses see it.
//!
//! `mmio` implements it for each virtio device; a node keeps its devices in the order of their windows.

use std::io;

use belljar_cpu::{Cycles, GuestRam};

use super::QueueError;

/// Registers of any device as the bus sees them.
///
/// ```
/// use belljar_devices::virtio::Window;
///
/// /// Whether a driver finds a virtio device there: by the register MagicValue.
/// fn is_virtio(window: &dyn Window) -> bool {
///     window.read(0, 4) == u64::from(u32::from_le_bytes(*b"virt"))
/// }
/// ```
pub trait Window {
    /// A load of `len` bytes at `offset`.
    fn read(&self, offset: u64, len: u8) -> u64;

    /// A store of the low `len` bytes of `value` at `offset`.
    ///
    /// # Errors
    /// When the host fails the device.
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

    /// When the device has something to do of its own.
    fn deadline(&self) -> Option<Cycles>;

    /// Carries out work that is due at or before `now`.
    ///
    /// # Errors
    /// When the host fails the device.
    fn advance(&mut self, ram: &GuestRam, now: Cycles) -> io::Result<()>;

    /// The reason for which the device asks for a reset, after its driver broke the rules.
    fn complaint(&self) -> Option<&QueueError>;
}
