//! The guest's path, under a processor model: the present context, predictors, and the expected context of each block.
//!
//! Translated code adds a block's ticks from its slot if the present context is the slot's, and leaves otherwise; it
//! updates the predictors at each jump. The engine fills slots, and saves predictors and path.

/// Entries of the table of conditional jumps, of indirect jumps, and of the stack of returns; powers of two.
pub const COUNTERS: usize = 2 << HISTORY_JUMPS;
/// Entries of the table of conditional jumps that the counters predict wrongly; a power of two.
pub const TAGGED: usize = 1 << 11;
/// The last conditional jumps by which counters are selected.
pub const HISTORY_JUMPS: usize = 14;
/// See [`COUNTERS`].
pub const TARGETS: usize = 1 << 10;
/// See [`COUNTERS`].
pub const RETURNS: usize = 1 << 5;

/// Bits of the history on which predictions depend.
pub const HISTORY_BITS: usize = 32;

/// The highest value of a counter: a jump that is always taken.
pub(crate) const TAKEN: u8 = 3;
/// The bit of counters of jumps that may have a tagged counter.
pub const MARKED: u8 = 4;
/// The value of a counter at the beginning: not taken, but the first exception changes the prediction.
const UNKNOWN: u8 = 1;

/// A block after the context that it was last entered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PathSlot {
    /// Added to the budget and to the count of instructions at the block's entry.
    pub charge: [i64; 2],
    /// The context before the block; zero for none. The number of no context has more than 32 bits.
    pub expected: u64,
    /// The context after the block.
    pub next: u64,
    /// The context after the block if its last jump is mispredicted.
    pub mispredicted: u64,
    /// The engine's number for the block after this context; of a trace, for its first block.
    pub edge: u64,
    /// Byte offset of a trace's first segment in the table of segments; zero for another block.
    pub segments: u64,
}

/// A block in a trace that was entered with a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TraceSegment {
    /// Added to the budget and to the count of instructions if the trace is left after the block.
    pub refund: [i64; 2],
    /// The context after the block.
    pub next: u64,
    /// The context after the block if its last jump is mispredicted.
    pub mispredicted: u64,
    /// The engine's number for the block after its context.
    pub edge: u64,
}

/// Number of segments; the first one is not used.
pub const TRACE_SEGMENTS: usize = 1 << 16;

/// Entries of the table of slots; a power of two.
pub const PATH_ENTRIES: usize = 1 << 14;
/// Odd factors by which contexts and slots are spread over the table.
const CONTEXT_FACTOR: u32 = 0x9e5;
const SLOT_FACTOR: u32 = 0x9e37_79b1;

/// A slot's earlier or later content, for a block that is entered with several contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct PathEntry {
    /// The content.
    pub content: PathSlot,
    /// The slot.
    pub slot: u64,
}

/// Factor and term by which a context's number becomes a byte offset in the table, for a `slot`; all bits above the
/// table's size are without meaning.
pub(crate) fn entry_terms(slot: u32) -> (i32, i32) {
    let size = size_of::<PathEntry>() as u32;
    let term = slot.wrapping_mul(SLOT_FACTOR) >> (32 - PATH_ENTRIES.ilog2());
    ((CONTEXT_FACTOR * size) as i32, (term * size) as i32)
}

/// The number of the entry for a context and a slot.
pub fn entry_number(context: u64, slot: u32) -> usize {
    let (factor, term) = entry_terms(slot);
    let offset = context
        .wrapping_mul(factor as u64)
        .wrapping_add(term as u64);
    offset as usize / size_of::<PathEntry>() % PATH_ENTRIES
}

/// A conditional jump after a long history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TaggedCounter {
    /// A hash of the jump's address and the history.
    pub tag: u32,
    /// Taken from 4 on; at most 7.
    pub counter: u8,
    /// Times that it was right where the counter without a tag was wrong, less the times that it was wrong; at most 3.
    pub useful: u8,
    /// Zero.
    pub unused: u16,
}

/// Branch predictors: functions of the executed jumps alone.
#[repr(C)]
pub struct Predictor {
    /// The directions of the last conditional jumps, the newest one in bit 0.
    pub history: u64,
    /// The index of the last return address.
    pub top: u64,
    /// Of conditional jumps, by the sum of a [`counter_term`] and the history: taken from 2 on; with [`MARKED`].
    pub counters: [u8; COUNTERS],
    /// Of conditional jumps that were mispredicted, by a hash of RIP and a longer history.
    pub tagged: [TaggedCounter; TAGGED],
    /// Of indirect jumps, by RIP and history: the last target.
    pub targets: [u64; TARGETS],
    /// Return addresses of the last calls.
    pub returns: [u64; RETURNS],
}

impl Predictor {
    /// Forgets all jumps.
    pub fn begin(&mut self) {
        (self.history, self.top) = (0, 0);
        self.counters.fill(UNKNOWN);
        self.tagged.fill(TaggedCounter::default());
        self.targets.fill(0);
        self.returns.fill(0);
    }
}

/// The number with which the history's hash of the jump at `rip` begins.
pub fn jump_seed(rip: u64) -> u32 {
    (rip ^ rip >> 32) as u32
}

/// The term by which the jump at `rip` adds to the last [`HISTORY_JUMPS`] jumps for the index of its counter.
pub fn counter_term(rip: u64) -> u64 {
    jump_term(rip, COUNTERS / 2)
}

/// The term by which the jump at `rip` adds to the history for its index in a table of `entries`.
pub fn jump_term(rip: u64, entries: usize) -> u64 {
    let bits = entries.ilog2();
    (rip ^ rip >> bits ^ rip >> (2 * bits)) & (entries as u64 - 1)
}
