//! Bounds of plain values in states, which may come from an untrusted file.
//!
//! A value of a state that was saved here is within them. Used where states are checked.

/// An upper bound for any count within representable time.
pub(crate) const MOST_COUNTED: u64 = 1 << 62;
