//! Results that processors make differently, as the engine defines them.
//!
//! Manuals bound the error of approximations and leave flags undefined, and so each processor
//! has its own. What is here is a function of an instruction's operands alone, the same on every
//! host, in integers or in what IEEE 754 fixes. Translated code and the dispatcher both use it;
//! `docs/makers.md` has the definitions in words.

/// What translated code needs of the definitions in memory.
pub mod lanes;
/// Approximate reciprocals and square roots of them.
pub mod reciprocal;
