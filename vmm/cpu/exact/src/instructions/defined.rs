//! The x87's functions, as the engine defines them.
//!
//! Processors round sines and logarithms each in its own way. What is here is a function of the operands alone, the same
//! on every host, in integers. `docs/makers.md` has the definitions in words; `system::fpu::transcendental` asks.

/// 80-bit numbers: unpacked, rounded, packed.
pub(crate) mod extended;
/// Sines, tangents, exponentials and logarithms.
pub(crate) mod functions;
/// Numbers of more bits, for what is in between.
pub(crate) mod wide;
