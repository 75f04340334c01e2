//! Packet sequence numbers, 24 bits wide.
//!
//! Numbers are compared by their distance, which is below half of the range: a window never has more packets. Packets and the
//! state of queue pairs have them.

const MASK: u32 = 0xff_ffff;

/// A sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Psn(u32);

impl Psn {
    /// The low 24 bits of `number`.
    pub const fn new(number: u32) -> Self {
        Self(number & MASK)
    }

    /// The number, below 2^24.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The number `packets` later.
    pub const fn after(self, packets: u32) -> Self {
        Self::new(self.0.wrapping_add(packets))
    }

    /// The distance from `other` to this number; negative if this number is earlier.
    pub const fn since(self, other: Self) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }
}
