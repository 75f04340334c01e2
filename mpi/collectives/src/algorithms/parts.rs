//! A buffer cut in parts.
//!
//! Parts are numbered; a run of them is what messages hold. Used by algorithms that move parts of buffers.

use std::ops::Range;

/// Bytes before each part, and of all.
#[derive(Debug)]
pub(super) struct Parts {
    ends: Vec<u64>,
}

impl Parts {
    /// Parts of so many bytes.
    pub(super) fn of(bytes: impl IntoIterator<Item = u64>) -> Self {
        let mut ends = vec![0];
        let mut end = 0u64;
        for bytes in bytes {
            end = end.saturating_add(bytes);
            ends.push(end);
        }
        Self { ends }
    }

    /// `bytes` in so many parts of the same size, rounded up; the last ones get less, or nothing.
    pub(super) fn rounded_up(bytes: u64, parts: u32) -> Self {
        let size = bytes.div_ceil(u64::from(parts.max(1)));
        let end = |part: u32| size.saturating_mul(part.into()).min(bytes);
        Self {
            ends: (0..=parts).map(end).collect(),
        }
    }

    /// `count` elements of `element` bytes in so many parts; the first ones have one more where they do not divide.
    pub(super) fn even(count: u64, element: u64, parts: u32) -> Self {
        let parts = u64::from(parts.max(1));
        let elements = |part: u64| count / parts + u64::from(part < count % parts);
        Self::of((0..parts).map(|part| elements(part).saturating_mul(element)))
    }

    /// `count` elements of `element` bytes in so many parts; the last one has the rest, too, where they do not divide.
    pub(super) fn last_longest(count: u64, element: u64, parts: u32) -> Self {
        let parts = u64::from(parts.max(1));
        let rest = |part: u64| if part + 1 == parts { count % parts } else { 0 };
        let elements = |part: u64| count / parts + rest(part);
        Self::of((0..parts).map(|part| elements(part).saturating_mul(element)))
    }

    /// `count` elements of `element` bytes, halved again and again into so many parts, a power of two; the second half has one more where
    /// they do not divide.
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

    /// Bytes of all parts.
    pub(super) fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Bytes of a run of parts, as far as there are any.
    pub(super) fn bytes(&self, run: Range<u32>) -> u64 {
        let last = self.ends.len() - 1;
        let at = |part: u32| self.ends[(part as usize).min(last)];
        at(run.end).saturating_sub(at(run.start))
    }
}

/// Numbers of the parts of a run.
pub(super) fn numbers(run: Range<u32>) -> Vec<u64> {
    run.map(u64::from).collect()
}

/// Bytes of a buffer, at most, that is sent in fragments: more than this no node holds, and the number of fragments is bounded.
const MOST_IN_FRAGMENTS: u64 = 1 << 36;

/// Bytes of the fragments of `count` elements of `element` bytes that have `most` bytes or fewer: all have as many elements,
/// and the last has the rest, too.
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
