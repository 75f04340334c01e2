//! Division of a buffer into parts.
//!
//! Parts are numbered; messages contain runs of them. Used by algorithms that move parts of buffers.

use std::ops::Range;

/// Bytes before each part, and of all parts.
#[derive(Debug)]
pub(super) struct PartBounds {
    ends: Vec<u64>,
}

impl PartBounds {
    /// Creates parts of these sizes.
    pub(super) fn of(bytes: impl IntoIterator<Item = u64>) -> Self {
        let mut ends = vec![0];
        let mut end = 0u64;
        for bytes in bytes {
            end = end.saturating_add(bytes);
            ends.push(end);
        }
        Self { ends }
    }

    /// Divides `bytes` into this many parts of the same size, rounded up; the last ones are smaller or empty.
    pub(super) fn rounded_up(bytes: u64, parts: u32) -> Self {
        let size = bytes.div_ceil(u64::from(parts.max(1)));
        let end = |part: u32| size.saturating_mul(part.into()).min(bytes);
        Self {
            ends: (0..=parts).map(end).collect(),
        }
    }

    /// Divides `count` elements of `element` bytes into this many parts; the first ones have one more if the division is uneven.
    pub(super) fn even(count: u64, element: u64, parts: u32) -> Self {
        let parts = u64::from(parts.max(1));
        let elements = |part: u64| count / parts + u64::from(part < count % parts);
        Self::of((0..parts).map(|part| elements(part).saturating_mul(element)))
    }

    /// Divides `count` elements of `element` bytes into this many parts; the last one also has the remainder.
    pub(super) fn last_longest(count: u64, element: u64, parts: u32) -> Self {
        let parts = u64::from(parts.max(1));
        let rest = |part: u64| if part + 1 == parts { count % parts } else { 0 };
        let elements = |part: u64| count / parts + rest(part);
        Self::of((0..parts).map(|part| elements(part).saturating_mul(element)))
    }

    /// Halves `count` elements of `element` bytes repeatedly into this many parts, a power of two; the second half has one more if the
    /// division is uneven.
    pub(super) fn halved(count: u64, element: u64, parts: u32) -> Self {
        let mut elements = vec![count];
        while elements.len() < parts as usize {
            let halves = elements
                .iter()
                .flat_map(|count| [count / 2, count - count / 2]);
            elements = halves.collect();
        }
        Self::of(elements.iter().map(|count| count.saturating_mul(element)))
    }

    /// Returns the bytes of all parts.
    pub(super) fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the bytes of a run of parts, as far as they exist.
    pub(super) fn bytes(&self, run: Range<u32>) -> u64 {
        let last = self.ends.len() - 1;
        let at = |part: u32| self.ends[(part as usize).min(last)];
        at(run.end).saturating_sub(at(run.start))
    }
}

/// Returns the numbers of the parts of a run.
pub(super) fn numbers(run: Range<u32>) -> Vec<u64> {
    run.map(u64::from).collect()
}

/// Most bytes of a buffer that is sent in fragments: no node holds more than this, and the number of fragments is bounded.
const MOST_IN_FRAGMENTS: u64 = 1 << 36;

/// Returns the bytes of the fragments of `count` elements of `element` bytes, each of at most `most` bytes: all have as many elements,
/// and the last also has the remainder.
pub(super) fn fragments(count: u64, element: u64, most: u64) -> impl Iterator<Item = u64> {
    let bytes = count.saturating_mul(element);
    let number = match bytes {
        0..=MOST_IN_FRAGMENTS => bytes.div_ceil(most.max(1)),
        _ => 1,
    };
    let each = count
        .checked_div(number)
        .unwrap_or(0)
        .saturating_mul(element);
    (0..number).map(move |index| match index + 1 == number {
        true => bytes - each * index,
        false => each,
    })
}
