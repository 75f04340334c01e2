//! What KVM says of an exit, from the page that it shares to what the exit means.
//!
//! Plain values and functions over them; `vcpu` acts on what comes out.

/// From what KVM says of an exit to what it means.
pub(crate) mod decode;
/// The last exits of a vCPU, for whoever looks for a fault.
pub(crate) mod history;
/// The page that KVM shares for each vCPU.
pub(crate) mod page;
