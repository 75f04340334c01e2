//! Sizes and counts from the arguments of datatype constructors.
//!
//! These functions do not use other datatypes. Guest data is untrusted: counts are limited, products saturate. Used by
//! `datatypes`.

use belljar_trace::{Implementation, MpiLibrary, standard_abi};

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

/// The distribution of a dimension of a grid over processes.
enum Distribution {
    Block,
    Cyclic,
    None,
}

impl Distribution {
    fn of(implementation: Implementation, number: i64) -> Self {
        let [block, cyclic] = match implementation {
            Implementation::Mpich => [121, 122],
            Implementation::OpenMpi => [0, 1],
            Implementation::StandardAbi(_) => [17, 18],
        };
        match number {
            _ if number == block => Self::Block,
            _ if number == cyclic => Self::Cyclic,
            _ => Self::None,
        }
    }
}

/// Returns the elements in a process's share of a grid distributed over processes in row-major order: the product over the
/// dimensions (MPI-4.0, 5.1.4).
pub(super) fn darray_elements(arguments: &mut Arguments<'_>) -> Option<u64> {
    let sizes = counts(arguments, "array_of_gsizes", "ndims")?;
    let processes = counts(arguments, "array_of_psizes", "ndims")?;
    let dimensions = sizes.len() as u64;
    let distributions = arguments.integers("array_of_distribs", dimensions)?;
    let chunks = arguments.integers("array_of_dargs", dimensions)?;
    // Negative in both MPICH and Open MPI.
    let default = match arguments.implementation {
        Implementation::StandardAbi(_) => standard_abi::DISTRIBUTE_DEFAULT,
        Implementation::Mpich | Implementation::OpenMpi => -1,
    };
    let mut rank = arguments.count("rank")?;
    let mut elements = 1u64;
    let rows = sizes
        .iter()
        .zip(&processes)
        .zip(distributions.iter().zip(&chunks));
    // The last dimension's coordinate changes fastest with the rank.
    for ((&size, &processes), (&distribution, &chunk)) in rows.rev() {
        let processes = processes.max(1);
        let position = rank % processes;
        rank /= processes;
        let chunk = u64::try_from(chunk).ok().filter(|_| chunk != default);
        let share = match Distribution::of(arguments.implementation, distribution) {
            Distribution::Block => {
                let block = chunk.unwrap_or(size.div_ceil(processes));
                let start = position.saturating_mul(block).min(size);
                block.min(size - start)
            }
            Distribution::Cyclic => {
                let block = chunk.unwrap_or(1).max(1);
                cyclic_share(size, processes, position, block)
            }
            Distribution::None => size,
        };
        elements = elements.saturating_mul(share);
    }
    Some(elements)
}

/// Returns the number of the `size` elements that process `position` of `processes` gets when blocks of `block` are dealt out in
/// turn.
fn cyclic_share(size: u64, processes: u64, position: u64, block: u64) -> u64 {
    let round = processes.saturating_mul(block);
    let rest = size % round;
    let start = position.saturating_mul(block).min(rest);
    (size / round).saturating_mul(block) + block.min(rest - start)
}
