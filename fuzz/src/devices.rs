//! Devices under hostile guests.
//!
//! Guests control a device's registers, rings and descriptors. Called by name from `lib.rs`.

/// An InfiniBand card.
pub(crate) mod hca;
/// Devices that have only registers.
pub(crate) mod registers;
/// virtio devices under hostile drivers.
pub(crate) mod virtio;
