//! The guest's processor as a value, and the host's as the engine uses it.
//!
//! Registers and the clock are whole at each instruction boundary. The rooms above change them.

/// A time model at work: prices, caches, and what was spent.
pub(crate) mod accounting;
/// Ticks and retired instructions as time.
pub(crate) mod clock;
/// The one way into translated code, and the one way out.
pub(crate) mod enter;
/// What the host's processor and kernel must have.
pub(crate) mod host;
/// Page tables: from linear to physical addresses, and RAM itself.
pub(crate) mod mmu;
/// Faults of the host's processor in translated code.
pub(crate) mod signals;
/// Registers that translated code does not hold, and what faults are.
pub(crate) mod state;
/// What a vCPU counts of its own work.
pub(crate) mod statistics;
/// The vCPU: its parts, and how it is made.
pub(crate) mod vcpu;
/// The x87, and when the host's holds the guest's.
pub(crate) mod x87;
