//! Blocks of earlier runs, which are decoded when they are needed.
//!
//! A run needs the tables of few of them: code runs, and is found in the index, without. A decoded block
//! never changes. `pool` looks up its first blocks and exit stubs here.

use std::sync::OnceLock;

use belljar_translate::guest::mode::Mode;
use belljar_translate::host::block::Block;
use belljar_translate::host::exit_stub::{BlockId, ExitStub, ExitStubId, POOLED};

use super::saved::{Places, SavedCodeError, SavedPool, SavedRecord};

/// A block with its exit stubs.
type Restored = (Block, Vec<ExitStub>);

/// The blocks of a saved pool; none by default.
#[derive(Default)]
pub(super) struct RestoredBlocks {
    /// With the places of the code memory.
    saved: Option<(SavedPool, Places)>,
    /// For each block, the end of its record.
    ends: Vec<u32>,
    /// For each block, the number of its first exit stub; and their number.
    first_stubs: Vec<u32>,
    /// For each exit stub, the number of its block.
    blocks_of_stubs: Vec<u32>,
    each: Vec<OnceLock<Box<Restored>>>,
}

impl RestoredBlocks {
    /// The blocks of `saved`, whose tables were checked.
    pub(super) fn new(saved: SavedPool, places: Places) -> Self {
        let (mut ends, mut first_stubs) = (Vec::new(), vec![0]);
        let (mut end, mut blocks_of_stubs) = (0, Vec::new());
        for (number, line) in (0..).zip(saved.lines()) {
            let (record, stubs) = line.sizes();
            end += record;
            ends.push(end);
            blocks_of_stubs.resize(blocks_of_stubs.len() + stubs as usize, number);
            first_stubs.push(blocks_of_stubs.len() as u32);
        }
        Self {
            each: ends.iter().map(|_| OnceLock::new()).collect(),
            ends,
            first_stubs,
            blocks_of_stubs,
            saved: Some((saved, places)),
        }
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.each.len()
    }

    /// Number of exit stubs.
    pub(super) fn stubs(&self) -> usize {
        self.blocks_of_stubs.len()
    }

    /// The saved form of block `id`, and the number of its exit stubs.
    pub(super) fn record(&self, id: BlockId) -> Option<(&[u8], u32)> {
        let number = (id & !POOLED) as usize;
        let end = *self.ends.get(number)? as usize;
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]) as usize;
        let stubs = self.first_stubs[number + 1] - self.first_stubs[number];
        let (saved, _) = self.saved.as_ref()?;
        Some((&saved.records()[begin..end], stubs))
    }

    /// The mode of block `id`.
    pub(super) fn mode(&self, id: BlockId) -> Option<Mode> {
        let (saved, _) = self.saved.as_ref()?;
        let line = saved.lines().get((id & !POOLED) as usize)?;
        Some(line.mode())
    }

    /// Block `id`, if it is one of these.
    pub(super) fn block(&self, id: BlockId) -> Option<&Block> {
        Some(&self.restored((id & !POOLED) as usize)?.0)
    }

    /// Exit stub `id`, if it is one of these.
    pub(super) fn stub(&self, id: ExitStubId) -> Option<&ExitStub> {
        let number = id & !POOLED;
        let block = *self.blocks_of_stubs.get(number as usize)? as usize;
        let (_, stubs) = self.restored(block)?;
        stubs.get((number - self.first_stubs[block]) as usize)
    }

    fn restored(&self, number: usize) -> Option<&Restored> {
        let place = self.each.get(number)?;
        let restored = place.get_or_init(|| match self.decoded(number) {
            Ok(restored) => Box::new(restored),
            Err(why) => unreachable!("sealed code of this build has an impossible block: {why}"),
        });
        Some(restored)
    }

    /// Decodes block number `number`.
    ///
    /// # Errors
    /// If the record is impossible, which its seal excludes.
    pub(super) fn decoded(&self, number: usize) -> Result<Restored, SavedCodeError> {
        let missing = SavedCodeError::Table("blocks");
        let (saved, places) = self.saved.as_ref().ok_or(missing)?;
        let (record, stubs) = self.record(number as BlockId).ok_or(missing)?;
        let restored = SavedRecord::restored(
            record,
            number as BlockId,
            saved.limits(),
            *places,
            saved.pages(),
        )?;
        if restored.1.len() != stubs as usize {
            return Err(missing);
        }
        Ok(restored)
    }
}
