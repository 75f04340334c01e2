//! Sequences of signatures as a grammar with repetitions.
//!
//! `Grammar::of` folds repetitions within and across sequences: a pair of symbols that occurs twice becomes a rule,
//! consecutive equal symbols become a repetition. The algorithm is Re-Pair (Larsson and Moffat 2000) in some 20 passes.
//! Each pass replaces many pairs at once, so that time is proportional to the length. Symbols below the number of
//! terminals are terminals; the others are rules. Used for each chunk; analyses take loops from it.

/// Most passes, which bounds the nesting of rules.
const MOST_PASSES: usize = 64;

/// Deepest nesting of rules.
pub(crate) const DEEPEST: usize = 2 * MOST_PASSES + 2;

/// The meaning of a symbol that is not a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One symbol, then another.
    Pair(u32, u32),
    /// A symbol repeated, at least twice.
    Repeat(u32, u32),
}

/// Sequences of terminals, folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grammar {
    /// The number of terminals: symbols below are terminals.
    pub terminals: u32,
    /// The rules: the first is the symbol `terminals`. Each refers to earlier symbols only.
    pub rules: Vec<Rule>,
    /// The sequences, of symbols.
    pub sequences: Vec<Vec<u32>>,
}

/// A table of keys with numbers, by open addressing; results do not depend on its order.
struct KeyTable {
    slots: Vec<(u64, u32)>,
    mask: usize,
}

const FREE: u64 = u64::MAX;

impl KeyTable {
    fn for_keys(count: usize) -> Self {
        let length = (2 * count + 1).next_power_of_two();
        Self {
            slots: vec![(FREE, 0); length],
            mask: length - 1,
        }
    }

    fn slot(&mut self, key: u64) -> &mut (u64, u32) {
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize & self.mask;
        while self.slots[at].0 != FREE && self.slots[at].0 != key {
            at = (at + 1) & self.mask;
        }
        &mut self.slots[at]
    }
}

fn key(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

impl Grammar {
    /// Folds sequences of terminals, all below `terminals`.
    pub(crate) fn of(terminals: u32, sequences: Vec<Vec<u32>>) -> Self {
        let mut grammar = Self {
            terminals,
            rules: Vec::new(),
            sequences,
        };
        let mut repeats = std::collections::BTreeMap::new();
        for _ in 0..MOST_PASSES {
            grammar.fold_repeats(&mut repeats);
            if !grammar.fold_pairs() {
                break;
            }
        }
        grammar
    }

    fn symbol(&self) -> u32 {
        self.terminals + self.rules.len() as u32
    }

    fn fold_repeats(&mut self, known: &mut std::collections::BTreeMap<(u32, u32), u32>) {
        for at in 0..self.sequences.len() {
            let sequence = std::mem::take(&mut self.sequences[at]);
            let mut folded = Vec::with_capacity(sequence.len());
            for same in sequence.chunk_by(|a, b| a == b) {
                let (symbol, times) = (same[0], same.len() as u32);
                folded.push(if times == 1 {
                    symbol
                } else {
                    let next = self.symbol();
                    let repeat = *known.entry((symbol, times)).or_insert(next);
                    if repeat == next {
                        self.rules.push(Rule::Repeat(symbol, times));
                    }
                    repeat
                });
            }
            self.sequences[at] = folded;
        }
    }

    /// Returns the most frequent pairs, down to half as often as the first.
    fn frequent_pairs(&self) -> Vec<u64> {
        let windows = self
            .sequences
            .iter()
            .flat_map(|sequence| sequence.windows(2));
        let mut pairs: Vec<u64> = windows.map(|pair| key(pair[0], pair[1])).collect();
        pairs.sort_unstable();
        let counted = pairs.chunk_by(|a, b| a == b);
        let mut counted: Vec<(usize, u64)> = counted
            .filter(|same| same.len() > 1)
            .map(|same| (same.len(), same[0]))
            .collect();
        let most = counted.iter().map(|it| it.0).max().unwrap_or(0);
        counted.retain(|it| 2 * it.0 > most);
        counted.sort_unstable_by(|a, b| b.cmp(a));
        counted.into_iter().map(|it| it.1).collect()
    }

    /// Replaces frequent pairs by rules. Returns true if there were any.
    fn fold_pairs(&mut self) -> bool {
        let mut frequent = self.frequent_pairs();
        if frequent.is_empty() {
            return false;
        }
        // Pairs that share a symbol exclude each other; the more frequent one takes precedence.
        let mut ends = KeyTable::for_keys(4 * frequent.len());
        frequent.retain(|pair| {
            let (first, second) = (pair >> 32, pair & 0xffff_ffff);
            let apart = ends.slot(first << 1 | 1).0 == FREE && ends.slot(second << 1).0 == FREE;
            if apart {
                *ends.slot(first << 1) = (first << 1, 0);
                *ends.slot(second << 1 | 1) = (second << 1 | 1, 0);
            }
            apart
        });
        let mut numbers = KeyTable::for_keys(frequent.len());
        for pair in frequent {
            *numbers.slot(pair) = (pair, self.symbol());
            self.rules
                .push(Rule::Pair((pair >> 32) as u32, pair as u32));
        }
        for sequence in &mut self.sequences {
            replace(sequence, &mut numbers);
        }
        true
    }

    /// Returns the length of each symbol when unfolded; `None` if one is longer than `most` or nested deeper than
    /// [`DEEPEST`], and so cannot be unfolded.
    pub(crate) fn lengths(&self, most: u64) -> Option<Vec<u64>> {
        let mut measures: Vec<(u64, usize)> = vec![(1, 0); self.terminals as usize];
        for rule in &self.rules {
            let of = |symbol: u32| measures.get(symbol as usize).copied();
            let (length, depth) = match *rule {
                Rule::Pair(first, second) => {
                    let (first, second) = (of(first)?, of(second)?);
                    (first.0.checked_add(second.0)?, first.1.max(second.1))
                }
                Rule::Repeat(symbol, times) => {
                    let (length, depth) = of(symbol)?;
                    (length.checked_mul(times.into())?, depth)
                }
            };
            if length > most || depth >= DEEPEST {
                return None;
            }
            measures.push((length, depth + 1));
        }
        Some(measures.into_iter().map(|it| it.0).collect())
    }

    /// Unfolds a sequence to terminals, appended to `into`.
    pub(crate) fn unfold(&self, sequence: &[u32], into: &mut Vec<u32>) {
        for symbol in sequence {
            self.unfold_symbol(*symbol, into);
        }
    }

    fn unfold_symbol(&self, symbol: u32, into: &mut Vec<u32>) {
        let Some(rule) = symbol.checked_sub(self.terminals) else {
            into.push(symbol);
            return;
        };
        match self.rules[rule as usize] {
            Rule::Pair(first, second) => {
                self.unfold_symbol(first, into);
                self.unfold_symbol(second, into);
            }
            Rule::Repeat(symbol, times) => {
                let start = into.len();
                self.unfold_symbol(symbol, into);
                let end = into.len();
                for _ in 1..times {
                    into.extend_from_within(start..end);
                }
            }
        }
    }
}

fn replace(sequence: &mut Vec<u32>, numbers: &mut KeyTable) {
    let (mut from, mut to) = (0, 0);
    while from < sequence.len() {
        let mut symbol = sequence[from];
        if let Some(next) = sequence.get(from + 1) {
            let (found, number) = *numbers.slot(key(symbol, *next));
            if found != FREE {
                symbol = number;
                from += 1;
            }
        }
        sequence[to] = symbol;
        (from, to) = (from + 1, to + 1);
    }
    sequence.truncate(to);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unfolded(grammar: &Grammar) -> Vec<Vec<u32>> {
        let unfold = |sequence: &Vec<u32>| {
            let mut into = Vec::new();
            grammar.unfold(sequence, &mut into);
            into
        };
        grammar.sequences.iter().map(unfold).collect()
    }

    proptest! {
        #[test]
        fn sequences_come_back(sequences in prop::collection::vec(prop::collection::vec(0..4u32, 0..300), 0..4)) {
            let grammar = Grammar::of(4, sequences.clone());
            prop_assert_eq!(unfolded(&grammar), sequences);
        }
    }

    #[test]
    fn a_loop_is_one_repetition() {
        let body = [0, 1, 1, 2, 3, 0, 0];
        let mut sequence = vec![4];
        (0..1000).for_each(|_| sequence.extend(body));
        let grammar = Grammar::of(5, vec![sequence.clone()]);
        assert_eq!(unfolded(&grammar), [sequence]);
        assert!(grammar.rules.len() < 12, "{grammar:?}");
        assert!(grammar.sequences[0].len() < 8, "{grammar:?}");
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_refused() {
        let grammar = |rules| Grammar {
            terminals: 1,
            rules,
            sequences: Vec::new(),
        };
        let chain = |length| (0..length).map(|symbol| Rule::Pair(symbol, 0)).collect();
        assert!(grammar(chain(100)).lengths(1 << 16).is_some());
        assert!(grammar(chain(1000)).lengths(1 << 16).is_none());
        let doubled = (0..17).map(|symbol| Rule::Repeat(symbol, 2)).collect();
        assert!(grammar(doubled).lengths(1 << 16).is_none());
    }
}
