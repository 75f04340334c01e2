//! Path slots of traces, whose blocks each have a context and ticks of their own.
//!
//! A trace is charged as a whole at its head if the present context is its slot's. The slot leads to a segment for each
//! of the trace's blocks, with the refund of later blocks and the contexts after it, for exits from the middle.
//! `run::path` fills slots, and asks for positions in a running trace.

use belljar_pipeline::paths::EdgeId;
use belljar_translate::context::path::{PathSlot, RETURNS, TRACE_SEGMENTS, TraceSegment};
use belljar_translate::host::block::{Block, Charge};
use belljar_translate::host::exit_stub::BlockId;

use super::{EMPTY, ends};
use crate::processor::accounting::path::PathPosition;
use crate::processor::vcpu::ExactVcpu;

/// Bytes of a segment.
const BYTES: u64 = size_of::<TraceSegment>() as u64;

impl ExactVcpu {
    /// The slot of trace `id`, whose path slot has number `heat`, after the present context. `None` if a block of the
    /// trace is shorter than the guest's.
    pub(super) fn trace_slot(&mut self, id: BlockId, heat: u32) -> Option<PathSlot> {
        let block = self.store.block(id);
        let (starts, counted) = (block.segments.clone(), block.counted);
        let rips: Vec<u64> = starts
            .iter()
            .map(|segment| block.rip_of(segment.start, self.context.code_page))
            .collect();
        let first = self.room_for_segments(starts.len())?;
        let known = self.context.path_slots[heat as usize].segments / BYTES;
        let mut edges = Vec::with_capacity(starts.len());
        let mut context = self.context.path as u32;
        for (number, &rip) in rips.iter().enumerate() {
            let known = match known {
                0 => 0,
                known => self.context.trace_segments[known as usize + number].edge as EdgeId,
            };
            let id = self.edge_at(rip, context, known)?;
            let edge = self.path_model()?.paths.edge(id);
            let end = starts.get(number + 1).map(|next| next.start);
            let length = end.unwrap_or(counted) - starts[number].start;
            let fits = match end {
                Some(_) => edge.count == length,
                None => edge.count >= length,
            };
            if !fits {
                return None;
            }
            context = edge.next;
            edges.push((id, length));
        }
        Some(self.fill_segments(first, &edges, counted))
    }

    /// Fills the segments from `first` on for these edges, each with its number of instructions.
    fn fill_segments(&mut self, first: usize, edges: &[(EdgeId, u16)], counted: u16) -> PathSlot {
        let Some(model) = self.accounting.as_ref().and_then(|each| each.path.as_ref()) else {
            return EMPTY;
        };
        let (mut ticks, mut instructions) = (0, 0);
        for (number, &(id, length)) in edges.iter().enumerate().rev() {
            let edge = model.paths.edge(id);
            let (next, mispredicted) = ends(edge, id, length);
            self.context.trace_segments[first + number] = TraceSegment {
                refund: [ticks, -instructions],
                next,
                mispredicted,
                edge: id.into(),
            };
            ticks += i64::from(edge.ticks) - i64::from(edge.rest(length));
            instructions += i64::from(length);
        }
        debug_assert_eq!(instructions, i64::from(counted));
        let last = self.context.trace_segments[first + edges.len() - 1];
        PathSlot {
            charge: [-ticks, instructions],
            expected: self.context.path,
            next: last.next,
            mispredicted: last.mispredicted,
            edge: self.context.trace_segments[first].edge,
            segments: first as u64 * BYTES,
        }
    }

    /// The number of the first of `count` unused segments; if there are too few, all slots are emptied.
    fn room_for_segments(&mut self, count: usize) -> Option<usize> {
        let used = self.path_model()?.segments;
        let is_full = used + count > TRACE_SEGMENTS;
        let first = if is_full { 1 } else { used };
        if is_full {
            self.empty_path_slots();
        }
        self.path_model_mut()?.segments = first + count;
        Some(first)
    }

    /// Records the return address that a call has pushed, if it was executed outside of translated code.
    pub(crate) fn expect_return(&mut self, pushed: &[u8]) {
        if self.path_model().is_none() {
            return;
        }
        let mut address = [0; 8];
        address[..pushed.len().min(8)].copy_from_slice(&pushed[..pushed.len().min(8)]);
        let predictor = &mut self.context.predictor;
        predictor.top = (predictor.top + 1) % RETURNS as u64;
        predictor.returns[predictor.top as usize] = u64::from_le_bytes(address);
    }

    /// The number of the segment of instruction `index` of a trace that runs, and its content.
    fn segment_of(&self, trace: &Block, index: u16) -> Option<(usize, &TraceSegment)> {
        let slot = &self.context.path_slots[trace.heat? as usize];
        let number = trace
            .segments
            .partition_point(|segment| segment.start <= index)
            - 1;
        let at = (slot.segments / BYTES) as usize + number;
        Some((number, &self.context.trace_segments[at]))
    }

    /// Adds the jumps of block `id`, if it is a trace, before instruction `index` to the history, as it is left there.
    pub(crate) fn unfold_history(&mut self, id: BlockId, index: u16) {
        if self.path_model().is_none() {
            return;
        }
        let trace = self.store.block(id);
        let number = trace
            .segments
            .partition_point(|segment| segment.start <= index);
        if let Some(last) = number.checked_sub(1) {
            let folded = trace.segments[last].folded;
            let history = &mut self.context.predictor.history;
            *history = folded.after(*history);
        }
    }

    /// The position of instruction `index` of a trace that runs.
    pub(super) fn position_in_trace(&self, trace: &Block, index: u16) -> Option<PathPosition> {
        let (number, segment) = self.segment_of(trace, index)?;
        Some(PathPosition {
            edge: segment.edge as EdgeId,
            index: index - trace.segments[number].start,
        })
    }

    /// The part of a trace's charge for instruction `index`, which is at `position`, and later ones.
    pub(super) fn charge_in_trace(
        &self,
        trace: &Block,
        position: PathPosition,
        index: u16,
    ) -> Charge {
        let (Some(model), Some((number, segment))) =
            (self.path_model(), self.segment_of(trace, index))
        else {
            return Charge::default();
        };
        let end = trace.segments.get(number + 1).map(|next| next.start);
        let length = end.unwrap_or(trace.counted) - trace.segments[number].start;
        let edge = model.paths.edge(position.edge);
        let here = i64::from(edge.rest(position.index)) - i64::from(edge.rest(length));
        Charge {
            ticks: here + segment.refund[0],
            instructions: i64::from(trace.counted.saturating_sub(index)),
        }
    }
}
