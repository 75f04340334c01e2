//! Sizes and counts that constructors of datatypes tell by their arguments.
//!
//! Nothing here knows of datatypes. What a guest passes may be anything: counts are cut, products saturate. Called by
//! `datatypes`.

use belljar_trace::Implementation;

use crate::decode::arguments::Arguments;

/// Bytes of the smallest real with the decimal digits `p` and the exponent range `r` (MPI-4.0,
/// 19.1.9); `MPI_UNDEFINED` asks for nothing. As the two choose it on x86-64.
pub(super) fn real_size(arguments: &Arguments<'_>) -> u64 {
    let (digits, range) = (arguments.int("p"), arguments.int("r"));
    let (digits, range) = (digits.unwrap_or(0), range.unwrap_or(0));
    let (single, double) = match arguments.implementation {
        Implementation::Mpich => (37, 307),
        Implementation::OpenMpi => (38, 308),
    };
    match (digits, range) {
        _ if digits <= 6 && range <= single => 4,
        _ if digits <= 15 && range <= double => 8,
        _ => 16,
    }
}

/// Bytes of the smallest integer with `r` decimal digits.
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

/// The array `name`, as long as the argument `length` says; `None` when that is too
/// long to be believed.
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

/// Elements in a process's share of a grid distributed over processes in row-major
/// order: the product over the dimensions (MPI-4.0, 5.1.4).
pub(super) fn darray_elements(arguments: &mut Arguments<'_>) -> Option<u64> {
    let sizes = counts(arguments, "array_of_gsizes", "ndims")?;
    let processes = counts(arguments, "array_of_psizes", "ndims")?;
    let dimensions = sizes.len() as u64;
    let distributions = arguments.integers("array_of_distribs", dimensions)?;
    let chunks = arguments.integers("array_of_dargs", dimensions)?;
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
        // BLOCK, CYCLIC, NONE: 121 to 123 in MPICH, 0 to 2 in Open MPI.
        let share = match distribution {
            0 | 121 => {
                let block = u64::try_from(chunk).unwrap_or(size.div_ceil(processes));
                let start = position.saturating_mul(block).min(size);
                block.min(size - start)
            }
            1 | 122 => {
                let block = u64::try_from(chunk).unwrap_or(1).max(1);
                cyclic_share(size, processes, position, block)
            }
            _ => size,
        };
        elements = elements.saturating_mul(share);
    }
    Some(elements)
}

/// How many of `size` elements process `position` of `processes` gets when blocks of `block` are dealt
/// out in turn.
fn cyclic_share(size: u64, processes: u64, position: u64, block: u64) -> u64 {
    let round = processes.saturating_mul(block);
    let rest = size % round;
    let start = position.saturating_mul(block).min(rest);
    (size / round).saturating_mul(block) + block.min(rest - start)
}
