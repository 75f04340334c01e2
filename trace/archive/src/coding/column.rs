//! Numbers that recur in their context: times and operands.
//!
//! A [`Column`](column::Column) codes each number by its earlier occurrence. It may be the last successor of the previous
//! number, one of the last few numbers of its fine context, or one in its coarse context. Only new numbers are stored in
//! full. Contexts are hashes; tables have a fixed size and drop old entries, identically in writer and reader. A column
//! restarts in each chunk, reusing its memory. Used by `times` and `operands`.

use crate::coding::coder::{Bit, Coder, Number, tree};

/// Most numbers kept for a fine context.
const FINE: usize = 8;

/// Most numbers kept for a coarse context, as a power of two.
const COARSE_BITS: u32 = 5;

/// Coarse contexts, as a power of two.
const COARSE_TABLE_BITS: u32 = 12;

/// A number's contexts, as keys: calls with equal keys behave alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// The narrow one.
    pub(crate) fine: u64,
    /// The wide one, and a default for the narrow one.
    pub(crate) coarse: u64,
    /// A key that is likely to precede the same number.
    pub(crate) before: u64,
}

/// Mixes keys.
pub(crate) fn mix(first: u64, second: u64) -> u64 {
    let mixed = (first ^ second.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ second
}

/// Numbers of a fine context, the latest first.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// The chunk that it belongs to.
    chunk: u32,
    key: u64,
    numbers: [u64; FINE],
    count: u8,
    /// One bit for each of the last numbers, set if it was among these; the latest is the lowest bit.
    hits: u8,
    stride: u64,
}

/// The number that followed a context and a number, in 16 bytes: the table is larger than the second-level cache.
#[derive(Clone, Copy, Debug, Default)]
struct Successor {
    /// The key. Two of its bits select the slot, and are replaced by the number of correct predictions in a row, up to 3.
    key_and_trust: u64,
    number: u64,
}

/// The lowest bits of a key that select a slot.
const SLOT_SHIFT: u32 = 24;
/// The bits of a key that are replaced.
const TRUST_BITS: u64 = 3 << SLOT_SHIFT;

impl Successor {
    fn new(key: u64, number: u64, trust: u8) -> Self {
        Self {
            key_and_trust: key & !TRUST_BITS | u64::from(trust) << SLOT_SHIFT,
            number,
        }
    }

    fn trust(self) -> u8 {
        (self.key_and_trust >> SLOT_SHIFT & 3) as u8
    }

    /// Returns the number for this key, which selects this slot.
    fn guess(self, key: u64) -> Option<u64> {
        let same = self.key_and_trust & !TRUST_BITS == key & !TRUST_BITS;
        same.then_some(self.number)
    }
}

/// The last numbers of a coarse context, in a ring.
#[derive(Clone, Debug)]
struct Coarse {
    numbers: [u64; 1 << COARSE_BITS],
    /// The place of the latest number; those after it are older.
    newest: usize,
    count: usize,
    known: Bit,
    places: [Bit; 1 << COARSE_BITS],
    spelled: Number,
    last: u64,
}

impl Default for Coarse {
    fn default() -> Self {
        Self {
            numbers: [0; 1 << COARSE_BITS],
            newest: 0,
            count: 0,
            known: Bit::default(),
            places: [Bit::default(); 1 << COARSE_BITS],
            spelled: Number::default(),
            last: 0,
        }
    }
}

impl Coarse {
    /// Returns the number of newer numbers than this one.
    fn age(&self, value: u64) -> Option<usize> {
        (0..self.count).find(|age| self.numbers[self.place(*age)] == value)
    }

    fn place(&self, age: usize) -> usize {
        (self.newest + age) % self.numbers.len()
    }

    /// Makes the number of this age the newest, and returns it; `None` if there is none.
    fn renew(&mut self, age: usize) -> Option<u64> {
        if age >= self.count {
            return None;
        }
        let number = self.numbers[self.place(age)];
        for age in (1..=age).rev() {
            self.numbers[self.place(age)] = self.numbers[self.place(age - 1)];
        }
        self.numbers[self.newest] = number;
        Some(number)
    }

    /// Adds the newest number, and drops the oldest if there are too many.
    fn add(&mut self, number: u64) {
        self.newest = self.place(self.numbers.len() - 1);
        self.numbers[self.newest] = number;
        self.count = (self.count + 1).min(self.numbers.len());
    }
}

/// Numbers of one kind.
#[derive(Debug)]
pub(crate) struct Column {
    /// True if new numbers are coded as differences from the latest.
    differences: bool,
    /// Number of the chunk: entries of earlier chunks are ignored.
    chunk: u32,
    followers: Vec<Successor>,
    recents: Vec<Recent>,
    coarse: Vec<Option<Box<Coarse>>>,
    follows: [[Bit; 64]; 4],
    strides: [Bit; 2],
    hits: [[Bit; 32]; FINE + 1],
    places: [[Bit; FINE]; FINE + 1],
}

impl Column {
    /// Creates a column for about `count` numbers.
    pub(crate) fn new(count: usize, differences: bool) -> Self {
        let length = count.next_power_of_two().max(16);
        Self {
            differences,
            chunk: 0,
            followers: vec![Successor::default(); 2 * length],
            recents: vec![Recent::default(); length],
            coarse: vec![None; 1 << COARSE_TABLE_BITS],
            follows: [[Bit::default(); 64]; 4],
            strides: [Bit::default(); 2],
            hits: [[Bit::default(); 32]; FINE + 1],
            places: [[Bit::default(); FINE]; FINE + 1],
        }
    }

    /// Restarts it, for about `count` numbers.
    pub(crate) fn restart(&mut self, count: usize) {
        let length = count.next_power_of_two().max(16);
        let Some(chunk) = self
            .chunk
            .checked_add(1)
            .filter(|_| length == self.capacity())
        else {
            *self = Self::new(count, self.differences);
            return;
        };
        self.chunk = chunk;
        self.followers.fill(Successor::default());
        self.coarse.fill(None);
        self.follows = [[Bit::default(); 64]; 4];
        self.strides = [Bit::default(); 2];
        self.hits = [[Bit::default(); 32]; FINE + 1];
        self.places = [[Bit::default(); FINE]; FINE + 1];
    }

    /// Returns the approximate number of numbers it is sized for.
    pub(crate) fn capacity(&self) -> usize {
        self.recents.len()
    }

    /// Codes one number in its context.
    pub(crate) fn code<C: Coder>(&mut self, coder: &mut C, context: Context, value: u64) -> u64 {
        let fine = (context.fine >> SLOT_SHIFT) as usize & (self.recents.len() - 1);
        let recent = &mut self.recents[fine];
        if recent.chunk != self.chunk || recent.key != context.fine {
            *recent = Recent {
                chunk: self.chunk,
                key: context.fine,
                ..Recent::default()
            };
        }
        let follow_key = mix(context.fine, context.before);
        let follow = (follow_key >> SLOT_SHIFT) as usize & (self.followers.len() - 1);
        let follower = self.followers[follow];
        let recent = self.recents[fine];
        let guess = follower.guess(follow_key);
        let (value, known) = match self.code_guess(coder, guess, follower.trust(), &recent, value) {
            Some(value) => (value, true),
            None => self.code_other(coder, context, guess, &recent, value),
        };
        let trust = if guess == Some(value) {
            (follower.trust() + 1).min(3)
        } else {
            0
        };
        self.followers[follow] = Successor::new(follow_key, value, trust);
        remember(&mut self.recents[fine], value, known);
        value
    }

    fn code_guess<C: Coder>(
        &mut self,
        coder: &mut C,
        guess: Option<u64>,
        trust: u8,
        recent: &Recent,
        value: u64,
    ) -> Option<u64> {
        let guess = guess?;
        let model = &mut self.follows[usize::from(trust)][usize::from(recent.hits & 63)];
        coder.bit(model, value == guess).then_some(guess)
    }

    /// Codes a number that is not the guess, and returns whether its fine context had it.
    fn code_other<C: Coder>(
        &mut self,
        coder: &mut C,
        context: Context,
        guess: Option<u64>,
        recent: &Recent,
        value: u64,
    ) -> (u64, bool) {
        let count = usize::from(recent.count);
        let rest = |number: &u64| Some(*number) != guess;
        let mut candidates = [0; FINE];
        let mut left = 0;
        for number in recent.numbers[..count].iter().filter(|it| rest(it)) {
            candidates[left] = *number;
            left += 1;
        }
        if left > 0 {
            let position = || candidates[..left].iter().position(|it| *it == value);
            let place = if C::WRITES { position() } else { None };
            let model = &mut self.hits[left][usize::from(recent.hits & 31)];
            if coder.bit(model, place.is_some()) {
                let place = place.unwrap_or(0);
                for (at, candidate) in candidates[..left - 1].iter().enumerate() {
                    if coder.bit(&mut self.places[left][at], at == place) {
                        return (*candidate, true);
                    }
                }
                return (candidates[left - 1], true);
            }
        }
        if self.differences && count > 0 {
            let next = recent.numbers[0].wrapping_add(recent.stride);
            let fits = value == next;
            if coder.bit(&mut self.strides[usize::from(recent.stride == 0)], fits) {
                return (next, false);
            }
        }
        (self.code_coarse(coder, context, recent, value), false)
    }

    fn code_coarse<C: Coder>(
        &mut self,
        coder: &mut C,
        context: Context,
        recent: &Recent,
        value: u64,
    ) -> u64 {
        let slot = (context.coarse >> SLOT_SHIFT) as usize & ((1 << COARSE_TABLE_BITS) - 1);
        let coarse = self.coarse[slot].get_or_insert_default();
        let age = if C::WRITES { coarse.age(value) } else { None };
        if coder.bit(&mut coarse.known, age.is_some()) {
            const LENGTH: usize = 1 << COARSE_BITS;
            let age = age.unwrap_or(0) as u32;
            let age = tree::<COARSE_BITS, LENGTH, C>(coder, &mut coarse.places, age) as usize;
            // An invalid age, in a damaged file. Any number will do.
            let age = age.min(coarse.count.saturating_sub(1));
            if let Some(number) = coarse.renew(age) {
                coarse.last = number;
                return number;
            }
        }
        let base = match (self.differences, recent.count) {
            (false, _) => 0,
            (true, 0) => coarse.last,
            (true, _) => recent.numbers[0],
        };
        let difference = value.wrapping_sub(base).cast_signed();
        let difference = coarse.spelled.code_signed(coder, difference);
        let value = base.wrapping_add(difference.cast_unsigned());
        coarse.add(value);
        coarse.last = value;
        value
    }
}

fn remember(recent: &mut Recent, value: u64, known: bool) {
    const LAST: usize = FINE - 1;
    let count = usize::from(recent.count);
    recent.hits = recent.hits << 1 | u8::from(known);
    if count > 0 {
        recent.stride = value.wrapping_sub(recent.numbers[0]);
    }
    let place = recent.numbers[..count].iter().position(|it| *it == value);
    let place = place.unwrap_or_else(|| {
        recent.count = (recent.count + 1).min(FINE as u8);
        usize::from(recent.count) - 1
    });
    // The longest move is the most frequent one, and has a fixed length.
    match place {
        LAST => recent.numbers.copy_within(..LAST, 1),
        _ => recent.numbers.copy_within(..place, 1),
    }
    recent.numbers[0] = value;
}
