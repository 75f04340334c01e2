//! Under which circumstances a block of guest code is translated, and where its bytes lie.
//!
//! A `Mode` is part of a block's key: what was made under one never runs under another. `dispatch` works it
//! out for every run of code, the emitter goes by it.

use crate::guest::decode::MAX_INSTRUCTIONS;
use crate::guest::size::{CodeSize, Nulls};

/// Under which circumstances a block was translated, and so may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Privilege level 3.
    pub user: bool,
    /// x87 and SSE run.
    pub fpu: bool,
    /// How much of the code it may run at once.
    pub pace: Pace,
    /// Stub instructions do not count.
    pub free_stubs: bool,
    /// What kind of code it is.
    pub size: CodeSize,
    /// Segments through which accesses raise #GP.
    pub nulls: Nulls,
    /// The base of CS modulo the page size: what separates RIP from a page offset.
    pub skew: u16,
    /// The number of the features that decide how it is translated.
    pub features: u8,
    /// Its addresses count from its page's beginning, wherever that is mapped.
    pub relative: bool,
    /// It counts in MM7, since the guest's x87 is as after reset and need not be in the host's;
    /// the guest's instructions that touch it leave.
    pub apart: bool,
}

/// How much code runs between two looks at the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Whole blocks, and hot ones where there are.
    Full,
    /// Whole blocks, none of them hot: the budget is nearly spent.
    Slow,
    /// Two to this power instructions at most: it does not cover the block.
    Piece(u8),
}

impl Pace {
    /// The largest piece that a budget of instructions covers, of two to the power of
    /// `largest` at most.
    #[inline]
    pub fn piece_of(budget: i64, largest: u8) -> Self {
        let most = budget.clamp(1, MAX_INSTRUCTIONS as i64);
        Self::Piece(largest.min(most.ilog2() as u8))
    }

    /// Instructions that a block may have.
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
    /// Whether what runs is a part of a block.
    #[inline]
    pub fn is_piece(self) -> bool {
        matches!(self.pace, Pace::Piece(_))
    }

    /// Sets of features that modes tell apart.
    pub const FEATURE_SETS: usize = 16;

    /// Whether code in this mode may stand in a pool: 64-bit code, of
    /// which a cluster's nodes run little else.
    #[inline]
    pub fn is_poolable(self) -> bool {
        self.size == CodeSize::Long && !self.relative
    }

    /// The same for code whose addresses are its own.
    #[inline]
    pub fn absolute(self) -> Self {
        Self {
            relative: false,
            ..self
        }
    }

    /// A number that tells modes apart.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
