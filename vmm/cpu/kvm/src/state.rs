//! A vCPU's state as KVM has it, and as the rest of Belljar has it.
//!
//! Nothing here calls KVM: `vcpu` fetches and puts what is converted here.

/// What CPUID answers, as KVM is told it.
pub(crate) mod cpuid;
/// General and system registers.
pub(crate) mod registers;
/// Linear addresses through the guest's page tables.
pub(crate) mod walk;
/// The XSAVE area.
pub(crate) mod xstate;
