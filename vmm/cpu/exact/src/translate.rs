//! Guest code made into host code: a function of the guest's bytes and the mode they run in.
//!
//! Nothing here knows a vCPU. `guest` reads and understands guest code, `host` writes host code, `context` says
//! where host code finds what belongs to a vCPU, and `prices` what instructions cost. Called by the rooms `code` and
//! `find`; the others use its types.

/// Names of bits in the architecture's registers, and of exception vectors.
pub(crate) mod architecture;
/// What translated code finds through the GS base: registers, TLB, slots, jump caches.
pub(crate) mod context;
/// Results that makers of processors leave open, as the engine defines them.
pub(crate) mod defined;
/// Guest code: decoded, classified, understood and made into traces' best order.
pub(crate) mod guest;
/// Host code: what is emitted for guest code, and where it stands.
pub(crate) mod host;
/// What instructions and accesses cost under a time model.
pub(crate) mod prices;
