//! Parts of guest accesses, each within a page.
//!
//! `access` cuts accesses into pieces, `lines` charges for their cache lines.

/// A part of a guest access within one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub physical: u64,
    pub start: usize,
    pub bytes: usize,
}

impl Piece {
    /// An access of `bytes` bytes that lie in one page.
    pub(crate) fn whole(physical: u64, bytes: usize) -> Self {
        Self {
            physical,
            start: 0,
            bytes,
        }
    }
}

/// No second piece.
pub(crate) const NO_PIECE: Piece = Piece {
    physical: 0,
    start: 0,
    bytes: 0,
};
