//! The guest's processor as a value, and the host's as the engine uses it.
//!
//! Registers and the clock are whole at each instruction boundary. The rooms above change them.

/// The model of the guest's caches, three levels.
pub(crate) mod caches;
/// Ticks and retired instructions as time.
pub(crate) mod clock;
/// The one way into translated code, and the one way out.
pub(crate) mod enter;
/// What the host's processor and kernel must have.
pub(crate) mod host;
/// Cycle accounting: what a run has used of its budget.
pub(crate) mod ledger;
/// Page tables: from linear to physical addresses, and RAM itself.
pub(crate) mod mmu;
/// Faults of the host's processor in translated code.
pub(crate) mod signals;
/// Registers that translated code does not hold, and what faults are.
pub(crate) mod state;
/// What a vCPU counts of its own work.
pub(crate) mod statistics;
/// The vCPU: all of its fields, and how it is made.
pub(crate) mod vcpu;
/// The x87, and when the host's holds the guest's.
pub(crate) mod x87;
