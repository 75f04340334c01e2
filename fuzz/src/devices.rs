//! Devices under hostile guests.
//!
//! A device sees whatever registers, rings and descriptors a guest likes to write. Called by name from `lib.rs`.

/// Devices that are nothing but registers.
pub(crate) mod registers;
/// virtio devices under hostile drivers.
pub(crate) mod virtio;
