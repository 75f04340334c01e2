//! The guest's path under a processor model: its contexts, and its position in a block.
//!
//! A vCPU that models a processor has one; translated code follows it by the slots in the context. Between
//! instructions, the context's `path` is the context after a whole block, or a position inside of one. `run::path`
//! calls this.

use std::sync::Arc;

use belljar_pipeline::class::UopClass;
use belljar_pipeline::paths::{BlockSource, EdgeId, Paths, TimingBlockId};
use belljar_pipeline::processor::Processor;
use belljar_translate::prices::timing::TICKS_PER_CYCLE;
use iced_x86::{Decoder, Instruction};

/// Paths and predictors as they are saved.
pub(crate) mod saved;

/// The bit of `path` for a position inside of a block.
const INSIDE: u64 = 1 << 63;
const INDEX_BITS: u32 = 16;

/// An instruction of a block after a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathPosition {
    pub edge: EdgeId,
    /// Number of the next instruction.
    pub index: u16,
}

impl PathPosition {
    /// The value of `path` at this position, which no slot expects.
    pub(crate) fn value(self) -> u64 {
        INSIDE | u64::from(self.edge) << INDEX_BITS | u64::from(self.index)
    }

    /// The position with this value; `None` for a context.
    pub(crate) fn of(path: u64) -> Option<Self> {
        (path & INSIDE != 0).then_some(Self {
            edge: (path >> INDEX_BITS) as EdgeId,
            index: path as u16,
        })
    }
}

/// The path of a vCPU.
pub(crate) struct PathModel {
    pub paths: Paths,
    processor: Arc<Processor>,
    /// The charged instruction, while it runs by itself.
    pub running: Option<PathPosition>,
    /// Number of the first unused segment of traces; those before it may belong to slots.
    pub segments: usize,
    /// iced's options under which blocks are decoded.
    decoder_options: u32,
}

impl PathModel {
    pub(crate) fn new(processor: &Arc<Processor>, decoder_options: u32) -> Self {
        Self {
            paths: Paths::new(processor.clone()),
            processor: processor.clone(),
            running: None,
            segments: 1,
            decoder_options,
        }
    }

    /// The number of the block with this origin.
    pub(crate) fn block_of(&mut self, source: BlockSource) -> TimingBlockId {
        let options = self.decoder_options;
        self.paths
            .block_of(source, |source| instructions(source, options))
    }

    /// The address of an instruction of a block after a context, if the block has as many.
    pub(crate) fn address(&self, position: PathPosition) -> Option<u64> {
        let edge = self.paths.edge(position.edge);
        self.paths.block(edge.block).address(position.index)
    }

    /// Ticks of the call of a stub.
    pub(crate) fn system_ticks(&self) -> u32 {
        self.processor.class(UopClass::System).latency * TICKS_PER_CYCLE
    }

    /// Cycles from the resolution of a mispredicted jump to the next dispatch.
    pub(crate) fn misprediction_cycles(&self) -> u64 {
        self.processor.core.mispredict.into()
    }

    /// Ticks of `bytes` bytes that a repeated string instruction writes from `address` on.
    pub(crate) fn written(&self, bytes: u64, address: u64) -> u64 {
        self.processor.text.written(bytes, address)
    }

    /// Ticks of `elements` elements of other string instructions.
    pub(crate) fn elements(&self, elements: u64) -> u64 {
        elements.saturating_mul(u64::from(self.processor.text.element))
    }
}

/// Decodes a block's bytes; missing bytes become invalid instructions.
fn instructions(source: &BlockSource, options: u32) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(source.bits, &source.bytes, source.rip, options);
    (0..source.count).map(|_| decoder.decode()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_no_context() {
        for (edge, index) in [(1, 1), (u32::MAX, 63), (7, u16::MAX)] {
            let position = PathPosition { edge, index };
            assert_eq!(PathPosition::of(position.value()), Some(position));
        }
        assert_eq!(PathPosition::of(u64::from(u32::MAX)), None);
        assert_eq!(PathPosition::of(u64::from(Paths::START)), None);
    }
}
