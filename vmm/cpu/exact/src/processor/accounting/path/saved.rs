//! Paths and predictors as they are saved: blocks with their bytes instead of numbers.
//!
//! `run::saved` stores them; loaded ones are untrusted. The paths of a full table are converted in the same way when
//! it is cleared.

use belljar_pipeline::paths::{BlockSource, Paths, TimingBlockId};
use belljar_translate::context::path::{
    COUNTERS, Predictor, RETURNS, TAGGED, TARGETS, TaggedCounter,
};
use belljar_translate::guest::decode::{MAX_BYTES, MAX_INSTRUCTIONS};
use serde::{Deserialize, Serialize};

use super::{PathModel, PathPosition};

/// Counters in a byte.
const PACKED: usize = 2;
/// The largest number of blocks of a context: each has an instruction.
const MOST_BLOCKS: usize = 256;

/// A block of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedBlock {
    rip: u64,
    bits: u32,
    count: u16,
    bytes: Vec<u8>,
    mispredicted: bool,
}

impl SavedBlock {
    fn new(source: &BlockSource, mispredicted: bool) -> Self {
        Self {
            rip: source.rip,
            bits: source.bits,
            count: source.count,
            bytes: source.bytes.to_vec(),
            mispredicted,
        }
    }

    fn is_valid(&self) -> bool {
        let count = usize::from(self.count);
        matches!(self.bits, 16 | 32 | 64)
            && (1..=MAX_INSTRUCTIONS).contains(&count)
            && self.bytes.len() <= count * MAX_BYTES
    }
}

/// The last blocks of a path, and the position inside of the present block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedPath {
    before: Vec<SavedBlock>,
    inside: Option<(SavedBlock, u16)>,
}

/// The state of the predictors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedPredictor {
    history: u64,
    top: u64,
    /// Four bits each.
    counters: Vec<u8>,
    tagged: Vec<(u32, u8, u8)>,
    targets: Vec<u64>,
    returns: Vec<u64>,
}

impl SavedPredictor {
    pub(crate) fn new(predictor: &Predictor) -> Self {
        let packed = predictor.counters.chunks(PACKED).map(|four| {
            let pairs = four.iter().enumerate();
            pairs.fold(0, |all, (at, counter)| all | (counter & 7) << (4 * at))
        });
        Self {
            history: predictor.history & u64::from(u32::MAX),
            top: predictor.top,
            counters: packed.collect(),
            tagged: predictor
                .tagged
                .iter()
                .map(|one| (one.tag, one.counter, one.useful))
                .collect(),
            targets: predictor.targets.to_vec(),
            returns: predictor.returns.to_vec(),
        }
    }

    /// Loads it. Returns false if it is not such.
    #[must_use]
    pub(crate) fn load(&self, predictor: &mut Predictor) -> bool {
        let fits = self.counters.len() * PACKED == COUNTERS
            && self.tagged.len() == TAGGED
            && self.tagged.iter().all(|one| one.1 <= 7 && one.2 <= 3)
            && self.targets.len() == TARGETS
            && self.returns.len() == RETURNS
            && self.top < RETURNS as u64;
        if !fits {
            return false;
        }
        (predictor.history, predictor.top) = (self.history, self.top);
        predictor.targets.copy_from_slice(&self.targets);
        predictor.returns.copy_from_slice(&self.returns);
        for (to, &(tag, counter, useful)) in predictor.tagged.iter_mut().zip(&self.tagged) {
            *to = TaggedCounter {
                tag,
                counter,
                useful,
                unused: 0,
            };
        }
        for (at, counter) in predictor.counters.iter_mut().enumerate() {
            *counter = self.counters[at / PACKED] >> (4 * (at % PACKED)) & 7;
        }
        true
    }
}

impl PathModel {
    /// The path with this value.
    pub(crate) fn saved(&self, path: u64) -> SavedPath {
        let position = PathPosition::of(path);
        let context = match position {
            Some(position) => self.paths.edge(position.edge).from,
            None => path as u32,
        };
        let steps = self.paths.steps(context).iter();
        let inside = position.map(|position| {
            let block = self.paths.edge(position.edge).block;
            (
                SavedBlock::new(self.paths.source(block), false),
                position.index,
            )
        });
        SavedPath {
            before: steps
                .map(|&(block, wrong)| SavedBlock::new(self.paths.source(block), wrong))
                .collect(),
            inside,
        }
    }

    /// The value of a saved path; `None` if it is invalid.
    pub(crate) fn loaded(&mut self, saved: &SavedPath) -> Option<u64> {
        if saved.before.len() > MOST_BLOCKS || !saved.before.iter().all(SavedBlock::is_valid) {
            return None;
        }
        let steps: Vec<(TimingBlockId, bool)> = saved
            .before
            .iter()
            .map(|block| (self.number(block), block.mispredicted))
            .collect();
        let context = self.paths.context_of(&steps);
        let Some((block, index)) = &saved.inside else {
            return Some(context.into());
        };
        if !block.is_valid() || *index == 0 || *index >= block.count {
            return None;
        }
        let block = self.number(block);
        let edge = self.paths.edge_of(context, block);
        Some(
            PathPosition {
                edge,
                index: *index,
            }
            .value(),
        )
    }

    /// Drops all contexts but the one with this value; returns its new value.
    pub(crate) fn renewed(&mut self, path: u64) -> u64 {
        let saved = self.saved(path);
        self.paths.clear();
        // Its blocks were valid.
        self.loaded(&saved).unwrap_or(u64::from(Paths::START))
    }

    fn number(&mut self, block: &SavedBlock) -> TimingBlockId {
        self.block_of(BlockSource {
            rip: block.rip,
            bits: block.bits,
            count: block.count,
            bytes: block.bytes.as_slice().into(),
        })
    }
}
