//! Conversions of a vCPU's state between KVM's form and Belljar's.
//!
//! This module does not call KVM: `vcpu` reads and writes the states that are converted here.

/// The answers of CPUID, in KVM's form.
pub(crate) mod cpuid;
/// General and system registers.
pub(crate) mod registers;
/// Translation of linear addresses by the guest's page tables.
pub(crate) mod walk;
/// The XSAVE area.
pub(crate) mod xstate;
