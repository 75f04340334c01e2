//! The engine's definitions of results that differ between processors.
//!
//! Manuals only bound the error of approximations, and leave flags undefined, so each processor has
//! its own results. The functions here depend only on an instruction's operands and are the same on
//! every host, computed with integers or with operations that IEEE 754 defines. Translated code and
//! the dispatcher both use them; `docs/makers.md` describes the definitions.

/// Constants of the definitions in memory, for translated code.
pub mod lanes;
/// Approximate reciprocals and reciprocal square roots.
pub mod reciprocal;
