//! The sequences of calls of a chunk's threads: the section that analyses of structure read.
//!
//! It contains a grammar over the distinct sequences of the chunk, which threads share, and each thread's sequence. A
//! symbol is defined at its first use, its parts first; later uses refer to it by the number of definitions since.
//! Decoding checks that a chunk has as many calls as declared, and no more than
//! [`CHUNK_CALLS`](structure::CHUNK_CALLS). Used by the writer and the readers.

use belljar_trace::Implementation;

use crate::calls::stream::Stream;
use crate::coding::coder::{Bit, Coder, Decoder, Encoder, Number};
use crate::coding::grammar::{DEEPEST, Grammar, Rule};

/// Most calls of a chunk.
pub(crate) const CHUNK_CALLS: usize = 1 << 16;

/// The sequences of calls of a chunk's threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// The number of calls in the chunk.
    pub calls: usize,
    /// Threads that are new in the chunk; they are numbered in the order of the file.
    pub fresh: Vec<Stream>,
    /// For each thread with calls in the chunk: its number, and the number of its sequence.
    pub threads: Vec<(u32, u32)>,
    /// The sequences, of terminals.
    pub grammar: Grammar,
    /// The signature of each terminal.
    pub signatures: Vec<u32>,
}

/// The models of the section.
#[derive(Default)]
struct Models {
    number: Number,
    place: Number,
    thread: Number,
    sequence: Number,
    defined: [Bit; 4],
    terminal: [Bit; 4],
    repeat: [Bit; 4],
    since: Number,
    signature: Number,
    times: Number,
}

/// The position of a symbol, which selects the model.
const IN_SEQUENCE: usize = 0;
const FIRST: usize = 1;
const SECOND: usize = 2;
const REPEATED: usize = 3;

impl Models {
    /// Codes a thread; `None` if its implementation's number is invalid.
    fn code_stream<C: Coder>(&mut self, coder: &mut C, stream: &Stream) -> Option<Stream> {
        let mut field = |value: u32| self.place.code(coder, value.into()) as u32;
        let (node, process) = (field(stream.node), field(stream.process));
        let (thread, rank) = (field(stream.thread), field(stream.rank));
        let implementation = field(stream.implementation.number());
        Some(Stream {
            node,
            process,
            thread,
            rank,
            implementation: Implementation::of_number(implementation)?,
        })
    }
}

struct Telling<'a> {
    models: Models,
    coder: Encoder,
    grammar: &'a Grammar,
    signatures: &'a [u32],
    /// The position of each symbol's definition, from 1; 0 if not yet defined.
    defined: Vec<u32>,
    count: u32,
    expected: i64,
}

impl Telling<'_> {
    fn symbol(&mut self, place: usize, symbol: u32) {
        let since = self.defined[symbol as usize];
        let (models, coder) = (&mut self.models, &mut self.coder);
        if coder.bit(&mut models.defined[place], since != 0) {
            models.since.code(coder, (self.count - since).into());
            return;
        }
        let rule = symbol.checked_sub(self.grammar.terminals);
        coder.bit(&mut models.terminal[place], rule.is_none());
        match rule.map(|rule| self.grammar.rules[rule as usize]) {
            None => {
                let signature = i64::from(self.signatures[symbol as usize]);
                models
                    .signature
                    .code_signed(coder, signature - self.expected);
                self.expected = signature + 1;
            }
            Some(Rule::Pair(first, second)) => {
                coder.bit(&mut models.repeat[place], false);
                self.symbol(FIRST, first);
                self.symbol(SECOND, second);
            }
            Some(Rule::Repeat(repeated, times)) => {
                coder.bit(&mut models.repeat[place], true);
                models.times.code(coder, times.into());
                self.symbol(REPEATED, repeated);
            }
        }
        self.count += 1;
        self.defined[symbol as usize] = self.count;
    }
}

/// Returns the terminals of a grammar in the order in which [`encode`] defines them.
pub(crate) fn first_uses(grammar: &Grammar) -> Vec<u32> {
    fn visit(grammar: &Grammar, symbol: u32, seen: &mut [bool], order: &mut Vec<u32>) {
        if std::mem::replace(&mut seen[symbol as usize], true) {
            return;
        }
        let Some(rule) = symbol.checked_sub(grammar.terminals) else {
            order.push(symbol);
            return;
        };
        match grammar.rules[rule as usize] {
            Rule::Pair(first, second) => {
                visit(grammar, first, seen, order);
                visit(grammar, second, seen, order);
            }
            Rule::Repeat(repeated, _) => visit(grammar, repeated, seen, order),
        }
    }
    let mut seen = vec![false; grammar.terminals as usize + grammar.rules.len()];
    let mut order = Vec::new();
    for symbol in grammar.sequences.iter().flatten() {
        visit(grammar, *symbol, &mut seen, &mut order);
    }
    order
}

/// Encodes the section as bytes. `known` is the number of signatures in the dictionary before the chunk.
pub(crate) fn encode(structure: &Structure, known: usize) -> Vec<u8> {
    let (mut models, mut coder) = (Models::default(), Encoder::new());
    models.number.code(&mut coder, structure.calls as u64);
    models.number.code(&mut coder, structure.fresh.len() as u64);
    for stream in &structure.fresh {
        models.code_stream(&mut coder, stream);
    }
    models
        .number
        .code(&mut coder, structure.threads.len() as u64);
    let sequences = &structure.grammar.sequences;
    models.number.code(&mut coder, sequences.len() as u64);
    let mut expected = 0;
    for (thread, sequence) in &structure.threads {
        models.thread.code(&mut coder, u64::from(thread - expected));
        models.sequence.code(&mut coder, (*sequence).into());
        expected = thread + 1;
    }
    let grammar = &structure.grammar;
    let mut telling = Telling {
        models,
        coder,
        grammar,
        signatures: &structure.signatures,
        defined: vec![0; grammar.terminals as usize + grammar.rules.len()],
        count: 0,
        expected: known as i64,
    };
    for sequence in sequences {
        let length = sequence.len() as u64;
        telling.models.number.code(&mut telling.coder, length);
        for symbol in sequence {
            telling.symbol(IN_SEQUENCE, *symbol);
        }
    }
    telling.coder.finish()
}

/// A symbol in the order of definition.
enum Definition {
    Terminal(u32),
    Rule(Rule),
}

struct Hearing<'a> {
    models: Models,
    coder: Decoder<'a>,
    definitions: Vec<Definition>,
    /// The number of signatures.
    signatures: usize,
    expected: i64,
}

impl Hearing<'_> {
    fn symbol(&mut self, place: usize, depth: usize) -> Option<u32> {
        let (models, coder) = (&mut self.models, &mut self.coder);
        if coder.bit(&mut models.defined[place], false) {
            let since = models.since.code(coder, 0);
            let at = (self.definitions.len() as u64).checked_sub(since.checked_add(1)?)?;
            return Some(at as u32);
        }
        if depth > DEEPEST || self.definitions.len() > 2 * CHUNK_CALLS {
            return None;
        }
        let definition = if coder.bit(&mut models.terminal[place], false) {
            let signature = models
                .signature
                .code_signed(coder, 0)
                .checked_add(self.expected)?;
            self.expected = signature + 1;
            let signature = u32::try_from(signature).ok()?;
            Definition::Terminal(signature).checked(self.signatures)?
        } else if coder.bit(&mut models.repeat[place], false) {
            let times = u32::try_from(models.times.code(coder, 0)).ok()?;
            let repeated = self.symbol(REPEATED, depth + 1)?;
            Definition::Rule(Rule::Repeat(repeated, times)).checked(0)?
        } else {
            let first = self.symbol(FIRST, depth + 1)?;
            let second = self.symbol(SECOND, depth + 1)?;
            Definition::Rule(Rule::Pair(first, second))
        };
        self.definitions.push(definition);
        Some(self.definitions.len() as u32 - 1)
    }
}

impl Definition {
    /// Returns itself if it is valid: its signature is known, or it repeats at least twice.
    fn checked(self, signatures: usize) -> Option<Self> {
        match self {
            Self::Terminal(signature) if signature as usize >= signatures => None,
            Self::Rule(Rule::Repeat(_, times)) if times < 2 => None,
            sound => Some(sound),
        }
    }
}

/// Decodes the structure; `None` if the bytes are invalid. `known` is as for [`encode`], `signatures` is the size of
/// the dictionary including the chunk's own, `threads` the number of known threads.
pub(crate) fn decode(
    bytes: &[u8],
    known: usize,
    signatures: usize,
    threads: usize,
) -> Option<Structure> {
    let (mut models, mut coder) = (Models::default(), Decoder::new(bytes));
    let within = |number: u64, most: usize| {
        usize::try_from(number)
            .ok()
            .filter(|number| *number <= most)
    };
    let calls = within(models.number.code(&mut coder, 0), CHUNK_CALLS)?;
    // Threads differ, so each takes at least a bit. Memory for them is therefore bounded by the file's size.
    let most_fresh = calls.min(64 + 8 * bytes.len());
    let fresh = within(models.number.code(&mut coder, 0), most_fresh)?;
    let nobody = Stream {
        node: 0,
        process: 0,
        thread: 0,
        rank: 0,
        implementation: Implementation::Mpich,
    };
    let fresh: Vec<Stream> = (0..fresh)
        .map(|_| models.code_stream(&mut coder, &nobody))
        .collect::<Option<_>>()?;
    let all = threads + fresh.len();
    let count = within(models.number.code(&mut coder, 0), calls.min(all))?;
    let sequences = within(models.number.code(&mut coder, 0), count)?;
    let mut told = Vec::new();
    let mut expected = 0u64;
    for _ in 0..count {
        let thread = expected.checked_add(models.thread.code(&mut coder, 0))?;
        let sequence = models.sequence.code(&mut coder, 0);
        if thread >= all as u64 || sequence >= sequences as u64 {
            return None;
        }
        told.push((thread as u32, sequence as u32));
        expected = thread + 1;
    }
    let mut hearing = Hearing {
        models,
        coder,
        definitions: Vec::new(),
        signatures,
        expected: known as i64,
    };
    let mut heard = Vec::new();
    let mut left = calls;
    for _ in 0..sequences {
        let length = within(hearing.models.number.code(&mut hearing.coder, 0), left)?;
        left -= length;
        let symbols = (0..length).map(|_| hearing.symbol(IN_SEQUENCE, 0));
        heard.push(symbols.collect::<Option<Vec<u32>>>()?);
    }
    let (grammar, signatures) = settle(&hearing.definitions, heard);
    let structure = Structure {
        calls,
        fresh,
        threads: told,
        grammar,
        signatures,
    };
    structure.adds_up().then_some(structure)
}

/// Converts symbols from the order of definition to terminals first, then rules.
fn settle(definitions: &[Definition], sequences: Vec<Vec<u32>>) -> (Grammar, Vec<u32>) {
    let signatures: Vec<u32> = definitions
        .iter()
        .filter_map(|it| match it {
            Definition::Terminal(signature) => Some(*signature),
            Definition::Rule(_) => None,
        })
        .collect();
    let terminals = signatures.len() as u32;
    let (mut terminal, mut rule) = (0, terminals);
    let numbers: Vec<u32> = definitions
        .iter()
        .map(|it| {
            let next = match it {
                Definition::Terminal(_) => &mut terminal,
                Definition::Rule(_) => &mut rule,
            };
            *next += 1;
            *next - 1
        })
        .collect();
    let number = |symbol: u32| numbers[symbol as usize];
    let rules = definitions.iter().filter_map(|it| match *it {
        Definition::Rule(Rule::Pair(first, second)) => {
            Some(Rule::Pair(number(first), number(second)))
        }
        Definition::Rule(Rule::Repeat(repeated, times)) => {
            Some(Rule::Repeat(number(repeated), times))
        }
        Definition::Terminal(_) => None,
    });
    let grammar = Grammar {
        terminals,
        rules: rules.collect(),
        sequences: sequences
            .into_iter()
            .map(|sequence| sequence.into_iter().map(number).collect())
            .collect(),
    };
    (grammar, signatures)
}

impl Structure {
    /// True if the threads' sequences have as many calls as the chunk.
    fn adds_up(&self) -> bool {
        let most = CHUNK_CALLS as u64;
        let Some(lengths) = self.grammar.lengths(most) else {
            return false;
        };
        let length = |sequence: &Vec<u32>| {
            sequence.iter().try_fold(0u64, |sum, symbol| {
                Some(sum + lengths[*symbol as usize]).filter(|sum| *sum <= most)
            })
        };
        let sequences: Option<Vec<u64>> = self.grammar.sequences.iter().map(length).collect();
        let Some(sequences) = sequences else {
            return false;
        };
        let threads = self.threads.iter().map(|it| sequences[it.1 as usize]);
        threads.sum::<u64>() == self.calls as u64
    }

    /// Returns the signatures of each sequence's calls.
    pub fn unfolded(&self) -> Vec<Vec<u32>> {
        let unfold = |sequence: &Vec<u32>| {
            let mut calls = Vec::new();
            self.grammar.unfold(sequence, &mut calls);
            for call in &mut calls {
                *call = self.signatures[*call as usize];
            }
            calls
        };
        self.grammar.sequences.iter().map(unfold).collect()
    }
}

#[cfg(test)]
mod tests;
