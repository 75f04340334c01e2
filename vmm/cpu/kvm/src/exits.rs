//! Exits of KVM: reading them from the shared page, and decoding them.
//!
//! Plain values and functions over them; `vcpu` acts on the results.

/// Decodes KVM's exits.
pub(crate) mod decode;
/// The last exits of a vCPU, for diagnosing errors.
pub(crate) mod history;
/// The page that KVM shares for each vCPU.
pub(crate) mod page;
