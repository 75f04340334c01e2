//! The x87's transcendental functions, as the engine defines them.
//!
//! Processors round sines and logarithms differently. These functions depend only on the operands, and are the same on
//! every host, because they use integers. `docs/makers.md` describes the definitions; `system::fpu::transcendental`
//! calls them.

/// 80-bit numbers: unpacking, rounding, packing.
pub(crate) mod extended;
/// Sines, tangents, exponentials and logarithms.
pub(crate) mod functions;
/// Numbers with more bits, for intermediate results.
pub(crate) mod wide;
