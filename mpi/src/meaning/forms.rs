//! Large-count, nonblocking and persistent forms of base functions.
//!
//! `MPI_Iallreduce_c` is `Allreduce`, begun. A name that is a base function itself is used unchanged (`MPI_Init`,
//! `MPI_Iprobe`, `MPI_Improbe`), so that forms apply only where no row has the whole name. Evaluated by the compiler.

use super::rows::{self, Row};
use super::{CallKind, Meaning, Phase};
use crate::functions::FUNCTIONS;

/// A base function and its row.
#[derive(Clone, Copy)]
struct Found {
    base: &'static str,
    row: &'static Row,
}

/// Returns the meanings of all functions, in their order.
pub(super) const fn all() -> [Meaning; FUNCTIONS.len()] {
    let mut all = [Meaning::UNKNOWN; FUNCTIONS.len()];
    let mut number = 0;
    while number < FUNCTIONS.len() {
        all[number] = of(FUNCTIONS[number].name.as_bytes());
        number += 1;
    }
    all
}

/// Returns the meaning of the function with this name.
const fn of(name: &[u8]) -> Meaning {
    let name = match strip_prefix(name, b"MPI_") {
        Some(name) => name,
        None => match strip_prefix(name, b"MPIX_") {
            Some(name) => name,
            None => panic!("a function's name begins with MPI_ or MPIX_"),
        },
    };
    let name = match strip_suffix(name, b"_c") {
        Some(name) => name,
        None => name,
    };
    if let Some(found) = row(name, 0) {
        return meaning(found, found.row.phase);
    }
    if let Some(base) = strip_suffix(name, b"_init")
        && let Some(found) = row(base, 0)
    {
        return meaning(found, Phase::Prepared);
    }
    // `Isend` is `Send`. Names of fault tolerance have the prefix after the object: `Comm_ishrink`.
    if let Some(base) = strip_prefix(name, b"I")
        && let Some(found) = row(base, CAPITAL)
    {
        return meaning(found, Phase::Begun);
    }
    if let Some(found) = begun_of_object(name) {
        return meaning(found, Phase::Begun);
    }
    panic!("a function has no row: add one to meaning/rows.rs")
}

/// The difference between a small letter and its capital.
const CAPITAL: u8 = b'a' - b'A';

/// Returns the row of an object's function in its nonblocking form: `Comm_idup` is `Comm_dup`, begun.
const fn begun_of_object(name: &[u8]) -> Option<Found> {
    let mut at = 0;
    while at + 1 < name.len() {
        if name[at] == b'_' && name[at + 1] == b'i' {
            return joined(name, at + 1);
        }
        at += 1;
    }
    None
}

/// Returns the row of the base function with this name without the letter at `left_out`.
const fn joined(name: &[u8], left_out: usize) -> Option<Found> {
    let mut base = [0; LONGEST];
    if name.len() > LONGEST {
        return None;
    }
    let mut at = 0;
    while at + 1 < name.len() {
        base[at] = name[at + (at >= left_out) as usize];
        at += 1;
    }
    row(base.split_at(at).0, 0)
}

/// Length of the longest name with an inner prefix.
const LONGEST: usize = 64;

const fn meaning(found: Found, phase: Phase) -> Meaning {
    let Found { base, row } = found;
    // A probe's I is not a request: the probe is complete when it returns.
    let phase = match row.kind {
        CallKind::Probe | CallKind::ProbeMatched => Phase::Done,
        _ => phase,
    };
    Meaning {
        base,
        kind: row.kind,
        phase,
        meeting: row.meeting,
        polls: row.polls,
        asks: row.asks,
    }
}

/// Returns the row of a base function, whose first letter is this much less than `name`'s.
const fn row(name: &[u8], capital: u8) -> Option<Found> {
    let mut number = 0;
    while number < rows::ROWS.len() {
        let row = &rows::ROWS[number];
        let mut which = 0;
        while which < row.names.len() {
            if is(row.names[which].as_bytes(), name, capital) {
                return Some(Found {
                    base: row.names[which],
                    row,
                });
            }
            which += 1;
        }
        number += 1;
    }
    None
}

/// True if `base` is `name` with a first letter that is this much less.
const fn is(base: &[u8], name: &[u8], capital: u8) -> bool {
    if base.len() != name.len() || name.is_empty() || name[0] < capital {
        return false;
    }
    base[0] == name[0] - capital && same(base.split_at(1).1, name.split_at(1).1)
}

const fn strip_prefix<'a>(name: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    if name.len() < prefix.len() {
        return None;
    }
    let (start, rest) = name.split_at(prefix.len());
    match same(start, prefix) {
        true => Some(rest),
        false => None,
    }
}

const fn strip_suffix<'a>(name: &'a [u8], suffix: &[u8]) -> Option<&'a [u8]> {
    if name.len() < suffix.len() {
        return None;
    }
    let (start, end) = name.split_at(name.len() - suffix.len());
    match same(end, suffix) {
        true => Some(start),
        false => None,
    }
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}
