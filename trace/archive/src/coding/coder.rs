//! A binary arithmetic coder whose probabilities adapt.
//!
//! Models are written once, over [`Coder`](coder::Coder): an [`Encoder`](coder::Encoder) writes its input bits, a [`Decoder`](coder::Decoder) ignores its
//! input and returns the bits that were written. The two sides therefore cannot differ. A decoder accepts any bytes, followed by zeros; for invalid ones it
//! still returns a value, although a meaningless one. Used by all sections of a chunk except the dictionary.

/// Number of observed bits after which a probability adapts at its slowest.
const SLOWEST: u8 = 30;

/// The probability that a bit is set, estimated from earlier bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bit {
    /// In 65536ths.
    chance: u16,
    /// Bits seen, up to [`SLOWEST`].
    seen: u8,
}

impl Default for Bit {
    fn default() -> Self {
        Self {
            chance: 1 << 15,
            seen: 0,
        }
    }
}

/// Reciprocals in 65536ths: the step of a probability after this number of bits. The last one is not used; with it, an index needs no check.
const RATES: [u32; SLOWEST as usize + 2] = {
    let mut rates = [0; SLOWEST as usize + 2];
    let mut seen = 0;
    while seen < rates.len() {
        rates[seen] = 131_072 / (2 * seen as u32 + 3);
        seen += 1;
    }
    rates
};

impl Bit {
    #[inline(always)]
    fn chance(self) -> u64 {
        u64::from(self.chance.clamp(32, u16::MAX - 31))
    }

    #[inline(always)]
    fn learn(&mut self, bit: bool) {
        let target = if bit { 65_535 } else { 0 };
        let old = i64::from(self.chance);
        let rate = RATES[usize::from(self.seen) % RATES.len()];
        // A rate is less than one, so the sum is between the old value and the target.
        let step = ((target - old) * i64::from(rate)) >> 16;
        self.chance = (old + step) as u16;
        self.seen += u8::from(self.seen < SLOWEST);
    }
}

/// Writes bits, or reads them back.
pub(crate) trait Coder {
    /// True if input bits are written; otherwise they are ignored, and need not be found.
    const WRITES: bool;

    /// Codes one bit under a probability, and adapts the probability.
    fn bit(&mut self, model: &mut Bit, bit: bool) -> bool;

    /// Codes the lowest `count` bits of `value`, at most 64, each with even odds.
    fn raw(&mut self, count: u32, value: u64) -> u64;
}

/// Writes bits.
#[derive(Debug)]
pub(crate) struct Encoder {
    low: u64,
    high: u64,
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self {
            low: 0,
            high: u64::MAX,
            bytes: Vec::new(),
        }
    }

    #[inline(always)]
    fn halve(&mut self, bit: bool, chance: u64) {
        let middle = self.low + ((self.high - self.low) >> 16) * chance;
        // Selections instead of branches, as most bits are hard to predict.
        (self.low, self.high) = select(bit, (self.low, middle), (middle + 1, self.high));
        while (self.low ^ self.high) >> 56 == 0 {
            self.bytes.push((self.high >> 56) as u8);
            self.low <<= 8;
            self.high = (self.high << 8) | 0xff;
        }
    }

    /// Returns all bits as bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.low != 0 {
            // The shortest number in the interval; implicit zeros follow it.
            self.bytes.push((self.high >> 56) as u8);
        }
        while self.bytes.last() == Some(&0) {
            self.bytes.pop();
        }
        self.bytes
    }
}

/// Returns the first pair for `true`, without a branch.
#[inline(always)]
fn select(first: bool, one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    let mask = u64::from(first).wrapping_neg();
    let pick = |one: u64, other: u64| other ^ ((one ^ other) & mask);
    (pick(one.0, other.0), pick(one.1, other.1))
}

impl Coder for Encoder {
    const WRITES: bool = true;

    #[inline(always)]
    fn bit(&mut self, model: &mut Bit, bit: bool) -> bool {
        self.halve(bit, model.chance());
        model.learn(bit);
        bit
    }

    fn raw(&mut self, count: u32, value: u64) -> u64 {
        for position in (0..count).rev() {
            self.halve(value >> position & 1 == 1, 1 << 15);
        }
        value
    }
}

/// Reads bits.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    low: u64,
    high: u64,
    at: u64,
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut decoder = Self {
            low: 0,
            high: u64::MAX,
            at: 0,
            bytes,
        };
        for _ in 0..8 {
            decoder.shift();
        }
        decoder
    }

    fn shift(&mut self) {
        let (next, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        self.at = (self.at << 8) | u64::from(*next);
    }

    #[inline(always)]
    fn halve(&mut self, chance: u64) -> bool {
        let middle = self.low + ((self.high - self.low) >> 16) * chance;
        let bit = self.at <= middle;
        (self.low, self.high) = select(bit, (self.low, middle), (middle + 1, self.high));
        while (self.low ^ self.high) >> 56 == 0 {
            self.low <<= 8;
            self.high = (self.high << 8) | 0xff;
            self.shift();
        }
        bit
    }
}

impl Coder for Decoder<'_> {
    const WRITES: bool = false;

    #[inline(always)]
    fn bit(&mut self, model: &mut Bit, _: bool) -> bool {
        let bit = self.halve(model.chance());
        model.learn(bit);
        bit
    }

    fn raw(&mut self, count: u32, _: u64) -> u64 {
        (0..count).fold(0, |value, _| value << 1 | u64::from(self.halve(1 << 15)))
    }
}

/// Numbers of 64 bits: probabilities adapt for their lengths and leading bits; the other bits are stored raw.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    lengths: Box<[Bit; 128]>,
    leading: Box<[[Bit; 1 << LEADING]; 65]>,
}

/// Number of bits after a number's highest that have adaptive probabilities.
const LEADING: u32 = 3;

impl Default for Number {
    fn default() -> Self {
        Self {
            lengths: Box::new([Bit::default(); 128]),
            leading: Box::new([[Bit::default(); 1 << LEADING]; 65]),
        }
    }
}

impl Number {
    /// Codes one number.
    pub(crate) fn code<C: Coder>(&mut self, coder: &mut C, value: u64) -> u64 {
        let length = tree::<7, 128, C>(coder, &mut self.lengths, 64 - value.leading_zeros());
        let length = length.min(64);
        if length < 2 {
            return u64::from(length);
        }
        let (mut node, mut got) = (1usize, 1u64);
        let adapting = LEADING.min(length - 1);
        let leading = &mut self.leading[length as usize];
        for step in 1..=adapting {
            let bit = value >> (length - 1 - step) & 1 == 1;
            let bit = coder.bit(&mut leading[node % (1 << LEADING)], bit);
            node = (2 * node) | usize::from(bit);
            got = got << 1 | u64::from(bit);
        }
        let rest = length - 1 - adapting;
        let mask = if rest == 0 {
            0
        } else {
            u64::MAX >> (64 - rest)
        };
        (got << rest) | coder.raw(rest, value & mask)
    }

    /// Codes one number that may be negative.
    pub(crate) fn code_signed<C: Coder>(&mut self, coder: &mut C, value: i64) -> i64 {
        let folded = (value << 1 ^ value >> 63).cast_unsigned();
        let folded = self.code(coder, folded);
        (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed()
    }
}

/// Codes `DEPTH` bits of `value`, highest first, each in the context of the bits before it. `LENGTH` is `1 << DEPTH`.
#[inline]
pub(crate) fn tree<const DEPTH: u32, const LENGTH: usize, C: Coder>(
    coder: &mut C,
    bits: &mut [Bit; LENGTH],
    value: u32,
) -> u32 {
    const { assert!(LENGTH == 1 << DEPTH) };
    let mut node = 1usize;
    for position in (0..DEPTH).rev() {
        let bit = coder.bit(&mut bits[node % LENGTH], value >> position & 1 == 1);
        node = (2 * node) | usize::from(bit);
    }
    node as u32 - (1 << DEPTH)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec((any::<u64>(), 0..64u32), 0..500)) {
            let numbers: Vec<u64> = numbers.iter().map(|(number, shift)| number >> shift).collect();
            let (mut coder, mut model, mut signed) = (Encoder::new(), Number::default(), Number::default());
            for number in &numbers {
                model.code(&mut coder, *number);
                signed.code_signed(&mut coder, number.cast_signed());
            }
            let bytes = coder.finish();
            let (mut coder, mut model, mut signed) = (Decoder::new(&bytes), Number::default(), Number::default());
            for number in &numbers {
                prop_assert_eq!(model.code(&mut coder, 0), *number);
                prop_assert_eq!(signed.code_signed(&mut coder, 0), number.cast_signed());
            }
        }
    }

    #[test]
    fn what_is_certain_costs_little() {
        let (mut coder, mut model) = (Encoder::new(), Bit::default());
        for _ in 0..100_000 {
            coder.bit(&mut model, true);
        }
        assert!(coder.finish().len() < 60);
    }
}
