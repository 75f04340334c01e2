//! Positions and contents of the parts of a kernel's symbol table.
//!
//! Up to Linux 6.3 they have this order: offsets, base, number, names, markers, (since 6.2 an order by name,) tokens,
//! index of tokens. From 6.4 on, offsets and base are after the index. Each begins at a multiple of 8 bytes. Used by
//! [`KernelSymbols`](super::KernelSymbols).

use std::ops::Range;

/// Number of tokens of a table.
const TOKENS: usize = 256;

/// The token that is the digit zero, in every kernel.
const ZERO: usize = b'0' as usize;

/// The digits in a table of tokens.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\0";

/// Longest token.
const LONGEST_TOKEN: usize = 64;

/// Longest name, including its kind.
const LONGEST_NAME: usize = 1024;

/// Number of names between two markers.
const MARKED: usize = 256;

/// Fewest symbols of a plausible table.
const FEWEST: usize = 64;

/// The alignment of every part.
const ALIGNMENT: usize = 8;

/// The kernel's half of the address space.
const KERNEL_HALF: u64 = 1 << 63;

/// A table of symbols.
pub(super) struct Tables<'k> {
    data: &'k [u8],
    tokens: Vec<&'k [u8]>,
    names: usize,
    number: usize,
    offsets: Range<usize>,
    base: u64,
    /// True if nonnegative offsets are absolute addresses, and negative ones are relative to the base
    /// (`CONFIG_KALLSYMS_ABSOLUTE_PERCPU`).
    has_absolute: bool,
}

impl<'k> Tables<'k> {
    /// Finds the first consistent table in `data`.
    pub(super) fn find(data: &'k [u8]) -> Option<Self> {
        let mut from = 0;
        while let Some(found) = position(data.get(from..)?, DIGITS) {
            let digits = from + found;
            if let Some((start, tokens, end)) = tokens_around(data, digits)
                && let Some(tables) = Self::before(data, start, tokens, end)
            {
                return Some(tables);
            }
            from = digits + 1;
        }
        None
    }

    /// Finds the table whose tokens begin at `start`, and whose index of tokens ends at `end`.
    fn before(data: &'k [u8], start: usize, tokens: Vec<&'k [u8]>, end: usize) -> Option<Self> {
        let mut at = start / ALIGNMENT * ALIGNMENT;
        while let Some(next) = at.checked_sub(ALIGNMENT) {
            at = next;
            let number = word(data, at)? as usize;
            let fits = (FEWEST..(start - at)).contains(&number) && word(data, at + 4) == Some(0);
            let names = at + ALIGNMENT;
            if fits && has_markers(data, names, number, start) {
                let mut tables = Self {
                    data,
                    tokens,
                    names,
                    number,
                    offsets: 0..0,
                    base: 0,
                    has_absolute: false,
                };
                return tables.place(at, end).then_some(tables);
            }
        }
        None
    }

    /// Finds the offsets of addresses: before the number of symbols, or after the index of tokens.
    fn place(&mut self, number_at: usize, index_end: usize) -> bool {
        let length = 4 * self.number;
        let padded = length.next_multiple_of(ALIGNMENT);
        let before = number_at
            .checked_sub(ALIGNMENT)
            .and_then(|base| Some((base, base.checked_sub(padded)?)));
        let after = index_end.next_multiple_of(ALIGNMENT);
        for (base, offsets) in before.into_iter().chain([(after + padded, after)]) {
            let value = self.data.get(base..).and_then(<[u8]>::first_chunk);
            let value = value.map_or(0, |bytes| u64::from_le_bytes(*bytes));
            if value >= KERNEL_HALF && value.is_multiple_of(4096) {
                self.base = value;
                self.offsets = offsets..offsets + length;
                let negative = (0..self.number).filter(|index| self.offset(*index) < 0);
                self.has_absolute = negative.count() > self.number / 2;
                return true;
            }
        }
        false
    }

    fn offset(&self, index: usize) -> i32 {
        let word = word(self.data, self.offsets.start + 4 * index);
        word.unwrap_or_default().cast_signed()
    }

    fn address(&self, index: usize) -> u64 {
        let offset = self.offset(index);
        match (self.has_absolute, offset < 0) {
            (true, true) => self.base.wrapping_add(u64::from(!offset.cast_unsigned())),
            (true, false) => u64::from(offset.cast_unsigned()),
            (false, _) => self.base.wrapping_add(u64::from(offset.cast_unsigned())),
        }
    }

    /// Returns address, kind as in `nm`, and name of each symbol.
    pub(super) fn symbols(&self) -> impl Iterator<Item = (u64, u8, String)> {
        let mut symbols = Vec::new();
        self.each(|index, kind, name| {
            let name = String::from_utf8_lossy(name).into_owned();
            symbols.push((self.address(index), kind, name));
        });
        symbols.into_iter()
    }

    /// Returns the address and the name of each symbol in `names`.
    pub(super) fn named<'n>(&self, names: &[&'n str]) -> Vec<(u64, &'n str)> {
        let mut found = Vec::new();
        self.each(|index, _, name| {
            if let Some(wanted) = names.iter().find(|wanted| wanted.as_bytes() == name) {
                found.push((self.address(index), *wanted));
            }
        });
        found
    }

    /// Passes number, kind and name of each symbol to `take`, up to the first damaged one.
    fn each(&self, mut take: impl FnMut(usize, u8, &[u8])) {
        let (mut at, mut text) = (self.names, Vec::new());
        for index in 0..self.number {
            let Some((tokens, next)) = entry(self.data, at) else {
                return;
            };
            at = next;
            text.clear();
            for token in self.data.get(tokens).unwrap_or_default() {
                let token = self.tokens.get(usize::from(*token));
                text.extend_from_slice(token.copied().unwrap_or_default());
                if text.len() > LONGEST_NAME {
                    return;
                }
            }
            let Some((kind, name)) = text.split_first() else {
                return;
            };
            take(index, *kind, name);
        }
    }
}

fn position(data: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(data, what)
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

/// Returns the table of tokens whose digits are at `digits`: its start, its tokens, and the end of the index after it.
fn tokens_around(data: &[u8], digits: usize) -> Option<(usize, Vec<&[u8]>, usize)> {
    let mut second = digits;
    for _ in 1..ZERO {
        // The previous token ends with a zero, after which this one begins.
        let end = second.checked_sub(1)?;
        let longest = end.saturating_sub(LONGEST_TOKEN);
        let zero = data.get(longest..end)?.iter().rposition(|byte| *byte == 0);
        second = longest + zero? + 1;
    }
    // The bytes before the first token are arbitrary.
    let last = second.checked_sub(1)? / ALIGNMENT;
    let mut starts = (0..=LONGEST_TOKEN / ALIGNMENT).filter_map(|back| last.checked_sub(back));
    starts.find_map(|start| tokens_at(data, start * ALIGNMENT))
}

/// Returns the table of tokens at `start`, if the index after it agrees.
fn tokens_at(data: &[u8], start: usize) -> Option<(usize, Vec<&[u8]>, usize)> {
    let (mut tokens, mut at, mut places) = (Vec::new(), start, Vec::new());
    while tokens.len() < TOKENS {
        let rest = data.get(at..)?;
        let length = rest
            .iter()
            .take(LONGEST_TOKEN)
            .position(|byte| *byte == 0)?;
        places.push(at - start);
        tokens.push(&rest[..length]);
        at += length + 1;
    }
    let index = at.next_multiple_of(ALIGNMENT);
    let end = index + 2 * TOKENS;
    let stored = data.get(index..end)?.chunks_exact(2);
    let stored = stored.map(|bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])));
    stored.eq(places).then_some((start, tokens, end))
}

/// Returns the positions of the tokens of the name at `at`, and of the next name. Lengths of 128 and more take two bytes
/// (since Linux 6.1).
fn entry(data: &[u8], at: usize) -> Option<(Range<usize>, usize)> {
    let first = usize::from(*data.get(at)?);
    let (length, start) = match first {
        0 => return None,
        1..128 => (first, at + 1),
        _ => (first - 128 + 128 * usize::from(*data.get(at + 1)?), at + 2),
    };
    let end = start + length;
    (length <= LONGEST_NAME && end <= data.len()).then_some((start..end, end))
}

/// True if `number` names from `names` on end before `limit`, and are followed by markers with the position of every
/// 256th.
fn has_markers(data: &[u8], names: usize, number: usize, limit: usize) -> bool {
    let (mut at, mut marks) = (names, Vec::new());
    for index in 0..number {
        if index % MARKED == 0 {
            marks.push((at - names) as u32);
        }
        match entry(data, at) {
            Some((_, next)) if next <= limit => at = next,
            _ => return false,
        }
    }
    let markers = at.next_multiple_of(ALIGNMENT);
    let mut stored = (0..marks.len()).map(|index| word(data, markers + 4 * index));
    marks
        .into_iter()
        .all(|mark| stored.next() == Some(Some(mark)))
}
