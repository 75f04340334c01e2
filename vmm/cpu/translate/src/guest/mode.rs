//! The mode in which a block of guest code is translated, and the addresses of its bytes.
//!
//! A `Mode` is part of a block's key: code made in one mode never runs in another. `dispatch` computes it
//! for every run of code; the emitter uses it.

use crate::guest::decode::MAX_INSTRUCTIONS;
use crate::guest::size::{CodeSize, Nulls};
use bincode::{Decode, Encode};

/// The mode in which a block was translated, and in which alone it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Mode {
    /// Privilege level 3.
    pub user: bool,
    /// x87 and SSE run.
    pub fpu: bool,
    /// The amount of code that may run at once.
    pub pace: Pace,
    /// True if stub instructions are not counted.
    pub free_stubs: bool,
    /// The kind of code.
    pub size: CodeSize,
    /// Segments through which accesses raise #GP.
    pub nulls: Nulls,
    /// The base of CS modulo the page size: the difference of RIP and the page offset.
    pub skew: u16,
    /// The number of the features that determine its translation.
    pub features: u8,
    /// True if its addresses are relative to its page's beginning, so that the page may be mapped anywhere.
    pub relative: bool,
    /// True if it counts in MM7: the guest's x87 is in its reset state and need not be loaded in the
    /// host's; guest instructions that touch it leave translated code.
    pub apart: bool,
}

/// The amount of code between two checks of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Pace {
    /// Whole blocks, and hot traces if available.
    Full,
    /// Whole blocks without hot traces: the budget is nearly spent.
    Slow,
    /// At most two to this power instructions, because the budget does not cover the block.
    Piece(u8),
}

impl Pace {
    /// The largest piece that a budget of instructions covers, with a power of at most `largest`.
    #[inline]
    pub fn piece_of(budget: i64, largest: u8) -> Self {
        let most = budget.clamp(1, MAX_INSTRUCTIONS as i64);
        Self::Piece(largest.min(most.ilog2() as u8))
    }

    /// The largest number of instructions in a block.
    #[inline]
    pub fn limit(self) -> usize {
        match self {
            Self::Full | Self::Slow => MAX_INSTRUCTIONS,
            Self::Piece(power) => 1 << power,
        }
    }

    fn bits(self) -> u32 {
        match self {
            Self::Full => 0,
            Self::Slow => 1,
            Self::Piece(power) => 2 + u32::from(power),
        }
    }
}

impl Mode {
    /// True if only a part of a block runs.
    #[inline]
    pub fn is_piece(self) -> bool {
        matches!(self.pace, Pace::Piece(_))
    }

    /// Number of feature sets that modes distinguish.
    pub const FEATURE_SETS: usize = 16;

    /// True if code in this mode may be in a pool: 64-bit code, which is nearly all of a cluster's code.
    #[inline]
    pub fn is_poolable(self) -> bool {
        self.size == CodeSize::Long
    }

    /// The same mode for code with absolute addresses.
    #[inline]
    pub fn absolute(self) -> Self {
        Self {
            relative: false,
            ..self
        }
    }

    /// A number that identifies the mode.
    #[inline]
    pub fn bits(self) -> u32 {
        u32::from(self.user)
            | u32::from(self.fpu) << 1
            | u32::from(self.relative) << 2
            | self.pace.bits() << 24
            | u32::from(self.free_stubs) << 3
            | (self.size as u32) << 4
            | u32::from(self.nulls.bits() & 3) << 6
            | u32::from(self.nulls.bits() >> 2) << 21
            | u32::from(self.skew) << 8
            | u32::from(self.apart) << 20
            | u32::from(self.features) << 28
    }
}

/// Guest-physical addresses of a block's first byte, and of its first in a second page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Origin {
    /// Of the first byte.
    pub first: u64,
    /// Of the first in a second page, if there is one.
    pub second: Option<u64>,
}

impl Origin {
    /// An address in each of its pages.
    #[inline]
    pub fn each(self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.second)
    }
}
