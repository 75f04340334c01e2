//! Following the guest's path under a processor model.
//!
//! A block's ticks depend on the blocks before it. Translated code charges them by the block's path slot, and leaves
//! for `meet_path` if the slot is for another context. After a stop in the middle of a block,
//! its other instructions run by themselves, with the same ticks: stops, refunds and single steps have no effect on
//! time. `dispatch`, `visit` and `memory::accounting` call this.

use belljar_pipeline::paths::{BlockSource, Edge, EdgeId, Paths, TimingBlockId};
use belljar_translate::context::PIECE_SLOT;
use belljar_translate::context::path::{PathEntry, PathSlot, entry_number};
use belljar_translate::guest::decode::MAX_INSTRUCTIONS;
use belljar_translate::host::block::{Block, Charge};
use belljar_translate::host::exit_stub::BlockId;

/// Slots of traces.
mod trace;

use crate::processor::accounting::path::saved::{SavedPath, SavedPredictor};
use crate::processor::accounting::path::{PathModel, PathPosition};
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::left::{Next, Uncovered};

/// A slot that no context matches.
pub(super) const EMPTY: PathSlot = PathSlot {
    charge: [0; 2],
    expected: 0,
    next: 0,
    mispredicted: 0,
    edge: 0,
    segments: 0,
};

const NO_ENTRY: PathEntry = PathEntry {
    content: EMPTY,
    slot: 0,
};

impl ExactVcpu {
    /// The processor model, if there is one.
    pub(crate) fn path_model(&self) -> Option<&PathModel> {
        self.accounting.as_ref()?.path.as_ref()
    }

    pub(super) fn path_model_mut(&mut self) -> Option<&mut PathModel> {
        self.accounting.as_mut()?.path.as_mut()
    }

    /// True if the next instruction must run by itself because its block has begun.
    pub(crate) fn is_inside_block(&self) -> bool {
        self.path_model().is_some() && PathPosition::of(self.context.path).is_some()
    }

    /// Begins a path with nothing before it: after interrupts, exceptions and changes from outside.
    pub(crate) fn restart_path(&mut self) {
        if let Some(model) = self.path_model_mut() {
            model.running = None;
            self.context.path = Paths::START.into();
        }
    }

    /// Handles the entry of `block` with a context that is not its slot's: fills the slot, and continues at `again`.
    pub(crate) fn meet_path(&mut self, block: BlockId, again: u64) -> Next {
        let found = self.store.block(block);
        let (heat, counted) = (found.heat, found.counted);
        let is_trace = !found.segments.is_empty();
        self.state.rip = found.rip_in(self.context.code_page);
        let Some(heat) = heat.filter(|_| !self.is_inside_block()) else {
            return Next::Single;
        };
        self.is_new_heat(heat);
        self.renew_full_paths();
        let content = match is_trace {
            true => self.trace_slot(block, heat),
            false => self
                .edge_here(self.context.path_slots[heat as usize].edge as EdgeId)
                .map(|edge| self.slot_of(edge, counted)),
        };
        let Some(content) = content else {
            return Next::Single;
        };
        self.context.path_slots[heat as usize] = content;
        let number = entry_number(content.expected, heat);
        self.context.path_entries[number] = PathEntry {
            content,
            slot: heat.into(),
        };
        Next::Resume(again)
    }

    /// The edge from the present context through the block at `state.rip`, which is that of edge `known`, if any.
    fn edge_here(&mut self, known: EdgeId) -> Option<EdgeId> {
        self.edge_at(self.state.rip, self.context.path as u32, known)
    }

    /// The edge from `context` through the block at `rip`, which is that of edge `known`, if any.
    pub(super) fn edge_at(&mut self, rip: u64, context: u32, known: EdgeId) -> Option<EdgeId> {
        let block = match known {
            0 => self.timing_block(rip)?,
            known => self.path_model()?.paths.edge(known).block,
        };
        Some(self.path_model_mut()?.paths.edge_of(context, block))
    }

    /// The slot of a translated block that has the first `counted` instructions of the edge's block.
    fn slot_of(&self, id: EdgeId, counted: u16) -> PathSlot {
        let Some(model) = self.path_model() else {
            return EMPTY;
        };
        let edge = model.paths.edge(id);
        let (next, mispredicted) = ends(edge, id, counted);
        PathSlot {
            charge: [
                i64::from(edge.rest(counted)) - i64::from(edge.ticks),
                i64::from(counted),
            ],
            expected: edge.from.into(),
            next,
            mispredicted,
            edge: id.into(),
            segments: 0,
        }
    }

    /// The block at `rip` by its bytes, whatever probes there are.
    fn timing_block(&mut self, rip: u64) -> Option<TimingBlockId> {
        let physical = self.fetch_address(self.state.code_address(rip)).ok()?;
        let (block, origin) = self.decode_whole(rip, physical, MAX_INSTRUCTIONS).ok()?;
        let length = (block.bytes.1.wrapping_sub(block.bytes.0) & 0xffff) as usize;
        let mut bytes = vec![0; length];
        let first = match origin.second {
            Some(_) => (physical | 0xfff) + 1 - physical,
            None => length as u64,
        };
        let (here, there) = bytes.split_at_mut((first as usize).min(length));
        self.memory.read(physical, here);
        if let Some(second) = origin.second {
            self.memory.read(second, there);
        }
        let source = BlockSource {
            rip,
            bits: self.state.code_size().bits(),
            count: block.instructions.len() as u16,
            bytes: bytes.into(),
        };
        Some(self.path_model_mut()?.block_of(source))
    }

    /// Charges the instruction at `state.rip`, which runs by itself.
    pub(crate) fn begin_single(&mut self) {
        if self.path_model().is_none() || self.in_free_stub() {
            return;
        }
        self.renew_full_paths();
        let position = match PathPosition::of(self.context.path) {
            Some(position) => Some(position),
            None => self
                .edge_here(0)
                .map(|edge| PathPosition { edge, index: 0 }),
        };
        let Some(position) = position else {
            return;
        };
        let slot = self.slot_of(position.edge, u16::MAX);
        self.context.count -= self.single_ticks(position);
        if let Some(model) = self.path_model_mut() {
            model.running = Some(position);
        }
        self.context.path = slot.next;
        self.context.path_slots[PIECE_SLOT as usize] = slot;
    }

    /// Ticks of one instruction.
    fn single_ticks(&self, position: PathPosition) -> i64 {
        let Some(model) = self.path_model() else {
            return 0;
        };
        let edge = model.paths.edge(position.edge);
        i64::from(edge.rest(position.index)) - i64::from(edge.rest(position.index + 1))
    }

    /// Ends an instruction that ran by itself; it was not executed if the guest `stands`.
    pub(crate) fn end_single(&mut self, stands: bool) {
        let Some(position) = self.path_model_mut().and_then(|model| model.running.take()) else {
            return;
        };
        if stands {
            self.context.count += self.single_ticks(position);
            self.stand_at(position);
        } else {
            self.pass(position, self.context.path);
        }
    }

    /// The guest is before the instruction at `position`.
    fn stand_at(&mut self, position: PathPosition) {
        let Some(model) = self.path_model_mut() else {
            return;
        };
        model.running = None;
        let from = model.paths.edge(position.edge).from;
        self.context.path = match position.index {
            0 => from.into(),
            _ => position.value(),
        };
    }

    /// The guest is after the instruction at `position`; if that ends its block, in context `end`.
    fn pass(&mut self, position: PathPosition, end: u64) {
        let Some(model) = self.path_model_mut() else {
            return;
        };
        model.running = None;
        let next = PathPosition {
            index: position.index + 1,
            ..position
        };
        let continues = model.address(next) == Some(self.state.rip);
        self.context.path = if continues { next.value() } else { end };
    }

    /// The position of instruction `index` of a block that runs.
    pub(crate) fn position_in(&self, block: BlockId, index: u16) -> Option<PathPosition> {
        let model = self.path_model()?;
        let block = self.store.block(block);
        if block.counted == 0 {
            return None;
        }
        if block.mode.is_piece() {
            return model.running;
        }
        if !block.segments.is_empty() {
            return self.position_in_trace(block, index);
        }
        let edge = self.context.path_slots[block.heat? as usize].edge as EdgeId;
        Some(PathPosition { edge, index })
    }

    /// Refunds of a block that runs are complete: its instruction `index` is the next one.
    pub(crate) fn leave_path(&mut self, position: Option<PathPosition>) {
        if let Some(position) = position {
            self.stand_at(position);
        }
    }

    /// The instruction at `position`, before which the guest stood, was executed in Rust.
    pub(crate) fn pass_helper(&mut self, position: Option<PathPosition>) {
        let Some(position) = position else {
            return;
        };
        let next = self
            .path_model()
            .map(|model| model.paths.edge(position.edge).next);
        self.pass(position, next.unwrap_or(Paths::START).into());
    }

    /// The part of a block's charge for instruction `index` and later ones, under a processor model.
    pub(crate) fn charge_on_path(
        &self,
        block: &Block,
        position: PathPosition,
        index: u16,
    ) -> Charge {
        let Some(model) = self.path_model() else {
            return Charge::default();
        };
        if !block.segments.is_empty() {
            return self.charge_in_trace(block, position, index);
        }
        let edge = model.paths.edge(position.edge);
        let first = if block.mode.is_piece() {
            position.index
        } else {
            0
        };
        let ticks = edge.rest(first + index.min(block.counted)) - edge.rest(first + block.counted);
        Charge {
            ticks: ticks.into(),
            instructions: i64::from(block.counted.saturating_sub(index)),
        }
    }

    /// The charge of a block that the budget did not cover.
    pub(crate) fn stop_charge(&self, stop: &Uncovered) -> Charge {
        let Some(slot) = stop.path_slot else {
            return stop.charge;
        };
        let [ticks, instructions] = self.context.path_slots[slot as usize].charge;
        Charge {
            ticks: -ticks,
            instructions,
        }
    }

    /// Cycles that mispredicted jumps kept the core from dispatching.
    pub(crate) fn branch_cycles(&self) -> u64 {
        let model = self.path_model();
        model.map_or(0, |model| {
            self.context.mispredictions * model.misprediction_cycles()
        })
    }

    /// The path and the predictors as they are saved.
    pub(crate) fn saved_path(&self) -> Option<(SavedPath, SavedPredictor)> {
        let saved = self.path_model()?.saved(self.context.path);
        Some((saved, SavedPredictor::new(&self.context.predictor)))
    }

    /// Loads a saved path. Returns false if it is invalid, or for another time model.
    #[must_use]
    pub(crate) fn load_path(&mut self, saved: Option<&(SavedPath, SavedPredictor)>) -> bool {
        let (Some(model), Some((path, predictor))) = (self.path_model_mut(), saved) else {
            return self.path_model().is_none() && saved.is_none();
        };
        model.running = None;
        let Some(path) = model.loaded(path) else {
            return false;
        };
        self.context.path = path;
        predictor.load(&mut self.context.predictor)
    }

    /// Drops all contexts but the present one if there are too many.
    fn renew_full_paths(&mut self) {
        let path = self.context.path;
        let Some(model) = self.path_model_mut().filter(|model| model.paths.is_full()) else {
            return;
        };
        self.context.path = model.renewed(path);
        self.empty_path_slots();
    }

    /// Empties all slots.
    pub(super) fn empty_path_slots(&mut self) {
        let (own, pooled) = (self.store.heats(), self.store.pooled_heats());
        self.forget_path_slots(own);
        self.forget_path_slots(0..pooled);
        self.forget_path_entries();
    }

    /// Empties the table of slots, whose numbers are about to be used for other blocks.
    pub(crate) fn forget_path_entries(&mut self) {
        if self.path_model().is_some() {
            self.context.path_entries.fill(NO_ENTRY);
        }
    }

    /// Empties slots of blocks.
    pub(crate) fn forget_path_slots(&mut self, slots: std::ops::Range<u32>) {
        if self.path_model().is_some() {
            self.context.path_slots[slots.start as usize..slots.end as usize].fill(EMPTY);
        }
    }
}

/// The values of `path` after the first `counted` instructions of an edge's block.
pub(super) fn ends(edge: &Edge, id: EdgeId, counted: u16) -> (u64, u64) {
    if counted < edge.count {
        let inside = PathPosition {
            edge: id,
            index: counted,
        };
        return (inside.value(), inside.value());
    }
    (edge.next.into(), edge.mispredicted.into())
}
