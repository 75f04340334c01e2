//! Costs of messages between processes of one host, in shared memory.
//!
//! A small message is copied twice, into the shared memory and out of it. For a large one, the receiver copies the data directly from the sender's memory
//! (`process_vm_readv`), and then answers: both UCX under MPICH and Open MPI's `vader` do this. The time until a message is seen is by far the largest: virtual
//! processors of a node take turns, which change at the ends of slices.

use serde::{Deserialize, Serialize};

/// Costs of messages between processes of one host, in cycles of its processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedMemory {
    /// A sender's work for a message, without copies.
    pub send: f64,
    /// A receiver's work for a message, without copies.
    pub receive: f64,
    /// A receiver's work to copy data from the sender's memory, without the copy.
    pub get: f64,
    /// Time from the end of a sender's work until the receiver sees the message.
    pub latency: f64,
    /// Work for each byte that is copied.
    pub copy: f64,
    /// Size in bytes from which on a message is copied only once, by its receiver.
    pub rendezvous: u64,
}

impl SharedMemory {
    /// The costs of MPICH 4.0 over UCX 1.13.
    pub(super) const MPICH: Self = Self {
        send: 700.0,
        receive: 1_500.0,
        get: 6_600.0,
        latency: 4_000.0,
        copy: 0.18,
        rendezvous: 8_249,
    };

    /// The costs of Open MPI 4.1.
    pub(super) const OPEN_MPI: Self = Self {
        rendezvous: 4_096,
        ..Self::MPICH
    };

    /// Returns zero costs with the same sizes.
    pub(super) fn none(of: &Self) -> Self {
        Self {
            send: 0.0,
            receive: 0.0,
            get: 0.0,
            latency: 0.0,
            copy: 0.0,
            ..*of
        }
    }
}

impl Default for SharedMemory {
    fn default() -> Self {
        Self::MPICH
    }
}
