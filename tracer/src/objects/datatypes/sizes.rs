//! Sizes and counts from the arguments of datatype constructors.
//!
//! These functions do not use other datatypes. Guest data is untrusted: counts are limited, products saturate. Used by
//! `datatypes`.

use belljar_trace::MpiLibrary;

use crate::decode::arguments::Arguments;

/// Returns the bytes of the smallest real with the decimal digits `p` and the exponent range `r` (MPI-4.0, 19.1.9);
/// `MPI_UNDEFINED` requires nothing. The result follows MPICH and Open MPI on x86-64; for other libraries, Fortran's `RANGE`.
pub(super) fn real_size(arguments: &Arguments<'_>) -> u64 {
    let (digits, range) = (arguments.int("p"), arguments.int("r"));
    let (digits, range) = (digits.unwrap_or(0), range.unwrap_or(0));
    let (single, double) = match arguments.implementation.library() {
        MpiLibrary::Mpich | MpiLibrary::Unknown => (37, 307),
        MpiLibrary::OpenMpi => (38, 308),
    };
    match (digits, range) {
        _ if digits <= 6 && range <= single => 4,
        _ if digits <= 15 && range <= double => 8,
        _ => 16,
    }
}

/// Returns the bytes of the smallest integer with `r` decimal digits.
pub(super) fn integer_size(arguments: &Arguments<'_>) -> u64 {
    match arguments.int("r").unwrap_or(0) {
        ..=2 => 1,
        3..=4 => 2,
        5..=9 => 4,
        10..=18 => 8,
        _ => 16,
    }
}

pub(super) fn lengths(arguments: &mut Arguments<'_>) -> Option<Vec<u64>> {
    counts(arguments, "array_of_blocklengths", "count")
}

/// Returns the array `name`, of the length in the argument `length`; `None` if that is implausible.
pub(super) fn counts(arguments: &mut Arguments<'_>, name: &str, length: &str) -> Option<Vec<u64>> {
    let length = arguments.count(length)?;
    let entries = arguments.integers(name, length)?;
    (entries.len() as u64 == length).then(|| {
        entries
            .into_iter()
            .map(|entry| u64::try_from(entry).unwrap_or(0))
            .collect()
    })
}

pub(super) fn product(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}
