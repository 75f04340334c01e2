//! Bounds of a datatype: its lower bound and its extent.
//!
//! They follow from a constructor's arguments by the standard's rules (MPI-4.0, 5.1.6 to 5.1.8). Bounds that the program
//! sets are inherited by all derived datatypes; other bounds are the data's. An end that is not set is rounded up so
//! that the next element is aligned, for structures by both implementations and otherwise by Open MPI alone. Sums
//! saturate, so absurd arguments yield absurd bounds. Used by `datatypes` when constructors return.

use belljar_trace::{Bounds, Predefined};
use bincode::{Decode, Encode};

/// A bound of a datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
struct DatatypeBound {
    /// Its position, in bytes.
    at: i64,
    /// True if the program set it.
    set: bool,
}

/// The bounds and the alignment of a datatype's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Layout {
    lower: Option<DatatypeBound>,
    upper: Option<DatatypeBound>,
    /// In bytes, at least 1.
    alignment: i64,
}

impl Layout {
    /// The layout of no data at all.
    pub(crate) const EMPTY: Self = Self {
        lower: None,
        upper: None,
        alignment: 1,
    };

    /// Returns the layout of `size` bytes, aligned to `alignment`.
    pub(crate) fn of_bytes(size: u64, alignment: u64) -> Self {
        Self {
            lower: Some(DatatypeBound { at: 0, set: false }),
            upper: Some(DatatypeBound {
                at: signed(size),
                set: false,
            }),
            alignment: signed(alignment.max(1)),
        }
    }

    /// Returns the layout of a predefined datatype; MPI-1's bound markers set one end.
    pub(crate) fn of_predefined(row: &Predefined) -> Self {
        let set = Some(DatatypeBound { at: 0, set: true });
        match row.name {
            "MPI_LB" => Self {
                lower: set,
                ..Self::EMPTY
            },
            "MPI_UB" => Self {
                upper: set,
                ..Self::EMPTY
            },
            _ => Self::of_bytes(row.extent(), row.alignment()),
        }
    }

    /// Returns the same layout with bounds that the program sets.
    pub(crate) fn resized(self, bounds: Bounds) -> Self {
        let set = |at| Some(DatatypeBound { at, set: true });
        Self {
            lower: set(bounds.lower),
            upper: set(bounds.lower.saturating_add(bounds.extent)),
            ..self
        }
    }

    /// Returns its bounds; 0 without data.
    pub(crate) fn bounds(self) -> Bounds {
        let lower = self.lower.map_or(0, |end| end.at);
        let upper = self.upper.map_or(lower, |end| end.at);
        Bounds {
            lower,
            extent: upper.saturating_sub(lower),
        }
    }

    /// Returns the layout of `length` consecutive elements, the first moved by `at` bytes.
    pub(crate) fn block(self, at: i64, length: u64) -> Self {
        let Some(more) = length.checked_sub(1) else {
            return Self::EMPTY;
        };
        let last = at.saturating_add(self.bounds().extent.saturating_mul(signed(more)));
        let moved = |by: i64| {
            move |end: DatatypeBound| DatatypeBound {
                at: end.at.saturating_add(by),
                ..end
            }
        };
        Self {
            lower: self.lower.map(moved(at.min(last))),
            upper: self.upper.map(moved(at.max(last))),
            ..self
        }
    }

    /// Returns the layout of both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            lower: outer(self.lower, other.lower, i64::min),
            upper: outer(self.upper, other.upper, i64::max),
            alignment: self.alignment.max(other.alignment),
        }
    }

    /// Rounds the end up to the alignment of the next element, unless it is set.
    pub(crate) fn padded(self) -> Self {
        let over = self.bounds().extent.rem_euclid(self.alignment);
        let pad = if over == 0 { 0 } else { self.alignment - over };
        let upper = self.upper.map(|end| match end.set {
            true => end,
            false => DatatypeBound {
                at: end.at.saturating_add(pad),
                ..end
            },
        });
        Self { upper, ..self }
    }
}

/// Returns the outer one of two ends; if only one of them is set, that one.
fn outer(
    one: Option<DatatypeBound>,
    other: Option<DatatypeBound>,
    outermost: fn(i64, i64) -> i64,
) -> Option<DatatypeBound> {
    match (one, other) {
        (Some(one), Some(other)) if one.set == other.set => Some(DatatypeBound {
            at: outermost(one.at, other.at),
            set: one.set,
        }),
        (Some(one), Some(other)) => Some(if one.set { one } else { other }),
        (one, other) => one.or(other),
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(layout: Layout) -> (i64, i64) {
        let bounds = layout.bounds();
        (bounds.lower, bounds.extent)
    }

    #[test]
    fn bounds_that_are_set_win_over_data_and_stay() {
        let double = Layout::of_bytes(8, 8);
        let wide = double.resized(Bounds {
            lower: -8,
            extent: 32,
        });
        assert_eq!(bounds(wide.block(0, 3)), (-8, 96));
        // The double ends later, and begins earlier.
        let both = wide
            .block(0, 1)
            .and(double.block(100, 1))
            .and(double.block(-40, 1));
        assert_eq!(bounds(both.padded()), (-8, 32));
    }

    #[test]
    fn ends_that_are_not_set_are_moved_up_to_the_alignment() {
        let (double, byte) = (Layout::of_bytes(8, 8), Layout::of_bytes(1, 1));
        let both = double.block(0, 1).and(byte.block(8, 1));
        assert_eq!(bounds(both), (0, 9));
        assert_eq!(bounds(both.padded()), (0, 16));
        assert_eq!(bounds(Layout::EMPTY.padded()), (0, 0));
    }

    #[test]
    fn elements_that_go_backwards_end_where_the_first_does() {
        let back = Layout::of_bytes(4, 4).resized(Bounds {
            lower: 0,
            extent: -16,
        });
        assert_eq!(bounds(back.block(0, 3)), (-32, 16));
        assert_eq!(
            bounds(Layout::of_bytes(u64::MAX, 0).block(i64::MAX, u64::MAX)).0,
            i64::MAX
        );
    }
}
