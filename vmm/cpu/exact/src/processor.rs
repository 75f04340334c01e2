//! The guest's processor as a value, and the host's as the engine uses it.
//!
//! Registers and the clock are consistent at each instruction boundary. The modules above change
//! them.

/// A time model in use: prices, caches, and accumulated costs.
pub(crate) mod accounting;
/// Converts ticks and retired instructions to time.
pub(crate) mod clock;
/// The single entry into translated code, and the single exit.
pub(crate) mod enter;
/// Requirements on the host's processor and kernel.
pub(crate) mod host;
/// Page tables: from linear to physical addresses, and RAM itself.
pub(crate) mod mmu;
/// Faults of the host's processor in translated code.
pub(crate) mod signals;
/// Registers outside translated code, and faults.
pub(crate) mod state;
/// Statistics of a vCPU.
pub(crate) mod statistics;
/// The vCPU: its parts, and its construction.
pub(crate) mod vcpu;
/// The x87, and the times when the host's holds the guest's.
pub(crate) mod x87;
