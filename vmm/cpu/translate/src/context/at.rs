//! Offsets from the GS base, as encoded in translated code.
//!
//! Each is computed from the `Context` type itself, so they always agree. The emitter and `stubs`
//! use them; tables are indexed by privilege level and by whether the access writes.

use std::mem::offset_of;

use super::path::{PathEntry, PathSlot, Predictor, TaggedCounter, TraceSegment};
use super::{
    Context, Jumps, LineFilter, NarrowLines, PrivilegeView, SLOT_CLUSTER, STEPS, Slot, Slots, Tlb,
    Vector, WideLines,
};
use crate::defined::lanes::{Own, SharedOperands};

pub(crate) const fn gpr(number: usize) -> i32 {
    (offset_of!(Context, gpr) + number * 8) as i32
}

/// The save slot of a vector register lent to an approximation.
pub(crate) const fn lent_vector(place: usize) -> i32 {
    (offset_of!(Context, lent_vectors) + place * size_of::<Vector>()) as i32
}

const fn lanes(field: usize) -> i32 {
    (offset_of!(Context, lanes) + field) as i32
}

pub(crate) const REPLICATE: i32 = lanes(offset_of!(SharedOperands, replicate));
pub(crate) const INTERVAL: i32 = lanes(offset_of!(SharedOperands, interval));
pub(crate) const SECOND: i32 = lanes(offset_of!(SharedOperands, second));
pub(crate) const CONSTANT: i32 = lanes(offset_of!(SharedOperands, constant));
pub(crate) const ARGUMENT: i32 = lanes(offset_of!(SharedOperands, argument));
pub(crate) const EXPONENT: i32 = lanes(offset_of!(SharedOperands, exponent));
pub(crate) const UNSIGNED_EXPONENT: i32 = lanes(offset_of!(SharedOperands, unsigned_exponent));
pub(crate) const FIRST_LANE: i32 = lanes(offset_of!(SharedOperands, first_lane));

/// Operands of one approximation.
#[derive(Clone, Copy)]
pub(crate) struct CurveAt {
    pub a: i32,
    pub b: i32,
    pub c: i32,
    pub lowest: i32,
    pub range: i32,
    pub base: i32,
}

pub(crate) const fn curve(number: usize) -> CurveAt {
    let start = (offset_of!(Context, curves) + number * size_of::<Own>()) as i32;
    CurveAt {
        a: start + offset_of!(Own, a) as i32,
        b: start + offset_of!(Own, b) as i32,
        c: start + offset_of!(Own, c) as i32,
        lowest: start + offset_of!(Own, lowest) as i32,
        range: start + offset_of!(Own, range) as i32,
        base: start + offset_of!(Own, base) as i32,
    }
}

/// The save slot of a lent register.
pub(crate) const fn lent(place: usize) -> i32 {
    (offset_of!(Context, lent) + place * 8) as i32
}

pub(crate) const COUNT: i32 = offset_of!(Context, count) as i32;
pub(crate) const CODE_PAGE: i32 = offset_of!(Context, code_page) as i32;
pub(crate) const AHEAD: i32 = offset_of!(Context, ahead) as i32;
pub(crate) const RETIRED: i32 = offset_of!(Context, retired) as i32;
pub(crate) const INTERRUPT_FLAG: i32 = offset_of!(Context, interrupt_flag) as i32;
pub(crate) const WINDOW_WANTED: i32 = offset_of!(Context, window_wanted) as i32;
pub(crate) const PUSHED_FLAGS: i32 = offset_of!(Context, pushed_flags) as i32;
pub(crate) const ARITHMETIC_MASK: i32 = offset_of!(Context, arithmetic_mask) as i32;
pub(crate) const HOST_RSP: i32 = offset_of!(Context, host_rsp) as i32;
pub(crate) const X87_USED: i32 = offset_of!(Context, x87_used) as i32;
pub(crate) const FREE: i32 = offset_of!(Context, free) as i32;
pub(crate) const BORROWED: i32 = offset_of!(Context, borrowed) as i32;
pub(crate) const CARRIED: i32 = offset_of!(Context, carried) as i32;
pub(crate) const KEPT_FLAGS: i32 = offset_of!(Context, kept_flags) as i32;
pub(crate) const SHIFT_COUNT: i32 = offset_of!(Context, shift_count) as i32;
pub(crate) const TLB_MASK: i32 = offset_of!(Context, tlb_mask) as i32;
pub(crate) const PAGE_MASK: i32 = offset_of!(Context, page_mask) as i32;
/// Masks of the first and the second jump cache's index.
pub(crate) const JUMP_MASKS: [i32; 2] = [
    offset_of!(Context, jump_masks) as i32,
    offset_of!(Context, jump_masks) as i32 + 8,
];
pub(crate) const SIGN_MASK: i32 = offset_of!(Context, sign_mask) as i32;
/// Base of ES, CS, SS or DS, by its number in the encoding.
pub(crate) const fn segment_base(number: usize) -> i32 {
    (offset_of!(Context, segment_bases) + number * 8) as i32
}

pub(crate) const FS_BASE: i32 = offset_of!(Context, fs_base) as i32;
pub(crate) const GS_BASE: i32 = offset_of!(Context, gs_base) as i32;
pub(crate) const KERNEL_GS_BASE: i32 = offset_of!(Context, kernel_gs_base) as i32;
pub(crate) const TSC_AT_ZERO: i32 = offset_of!(Context, tsc_at_zero) as i32;
pub(crate) const TSC_HIDDEN: i32 = offset_of!(Context, tsc_hidden) as i32;
pub(crate) const TSC_AUX: i32 = offset_of!(Context, tsc_aux) as i32;
pub(crate) const CROSSING_CLOSED: i32 = offset_of!(Context, crossing_closed) as i32;
pub(crate) const CROSSED: i32 = offset_of!(Context, crossed) as i32;
pub(crate) const SYSTEM_ENTRY: i32 = offset_of!(Context, system_entry) as i32;
pub(crate) const INTERRUPT_MASK: i32 = offset_of!(Context, interrupt_mask) as i32;
pub(crate) const SELDOM_MASK: i32 = offset_of!(Context, seldom_mask) as i32;
pub(crate) const ABOVE_USERS_MASK: i32 = offset_of!(Context, above_users_mask) as i32;
pub(crate) const DIRECTION_MASK: i32 = offset_of!(Context, direction_mask) as i32;
/// See `Context::beyond_bits`, for an operand of `size` bytes.
pub(crate) const fn beyond_bits(size: u16) -> i32 {
    (offset_of!(Context, beyond_bits) + (size as usize / 4) * 8) as i32
}

pub(crate) const EXIT_SITE: i32 = offset_of!(Context, exit_site) as i32;

const fn view(user: bool) -> i32 {
    (offset_of!(Context, views) + user as usize * size_of::<PrivilegeView>()) as i32
}

const fn tlb(user: bool, write: bool, field: usize) -> i32 {
    view(user) + (offset_of!(PrivilegeView, tlb) + write as usize * size_of::<Tlb>() + field) as i32
}

pub(crate) const fn tags(user: bool, write: bool) -> i32 {
    tlb(user, write, offset_of!(Tlb, tag))
}

pub(crate) const fn pages(user: bool, write: bool) -> i32 {
    tlb(user, write, offset_of!(Tlb, page))
}

/// Offset of a table of lines, whose `tags` come first.
const fn lines(filter: LineFilter, user: bool, write: bool) -> usize {
    let table = user as usize * 2 + write as usize;
    match filter {
        LineFilter::Narrow => offset_of!(Context, lines) + table * size_of::<NarrowLines>(),
        LineFilter::Wide => offset_of!(Context, wide_lines) + table * size_of::<WideLines>(),
    }
}

pub(crate) const fn line_tags(filter: LineFilter, user: bool, write: bool) -> i32 {
    (lines(filter, user, write) + offset_of!(NarrowLines, tag)) as i32
}

pub(crate) const fn line_hosts(filter: LineFilter, user: bool, write: bool) -> i32 {
    (lines(filter, user, write) + filter.entries() * 8) as i32
}

const _: () = assert!(offset_of!(NarrowLines, tag) == 0 && offset_of!(WideLines, tag) == 0);

pub(crate) const MISPREDICTIONS: i32 = offset_of!(Context, mispredictions) as i32;
pub(crate) const LINE_MASK: i32 = offset_of!(Context, line_mask) as i32;
pub(crate) const ABOVE_LINE_MASK: i32 = offset_of!(Context, above_line_mask) as i32;

pub(crate) const fn deltas(user: bool, write: bool) -> i32 {
    tlb(user, write, offset_of!(Tlb, delta))
}

pub(crate) const fn ranges(user: bool, write: bool) -> i32 {
    tlb(user, write, offset_of!(Tlb, range))
}

pub(crate) const fn range_bytes(user: bool, write: bool) -> i32 {
    tlb(user, write, offset_of!(Tlb, range_bytes))
}

const fn slot(field: usize, id: u32) -> i32 {
    let each = offset_of!(Context, slots) + offset_of!(Slots, each);
    (each + id as usize * size_of::<Slot>() + field) as i32
}

/// A byte that is nonzero while a slot of this slot's cluster may be filled.
pub(crate) const fn filled(id: u32) -> i32 {
    let filled = offset_of!(Context, slots) + offset_of!(Slots, filled);
    (filled + id as usize / SLOT_CLUSTER) as i32
}

pub(crate) const fn slot_limit(id: u32) -> i32 {
    slot(offset_of!(Slot, limit), id)
}

pub(crate) const fn slot_base(id: u32) -> i32 {
    slot(offset_of!(Slot, base), id)
}

pub(crate) const fn slot_delta(id: u32) -> i32 {
    slot(offset_of!(Slot, delta), id)
}

pub(crate) const fn slot_fills(id: u32) -> i32 {
    slot(offset_of!(Slot, fills), id)
}

/// The address of the number `by`, at most [`STEPS`].
pub(crate) const fn step(by: i32) -> i32 {
    offset_of!(Context, steps) as i32 + (STEPS as i32 + by) * 8
}

pub(crate) const fn heat(id: u32) -> i32 {
    (offset_of!(Context, heat) + id as usize * 4) as i32
}

const fn jumps(user: bool, field: usize) -> i32 {
    view(user) + (offset_of!(PrivilegeView, jumps) + field) as i32
}

pub(crate) const fn first_jumps(user: bool) -> i32 {
    jumps(user, offset_of!(Jumps, first))
}

pub(crate) const fn second_negated(user: bool) -> i32 {
    jumps(user, offset_of!(Jumps, second_negated))
}

pub(crate) const fn second_jumps(user: bool) -> i32 {
    jumps(user, offset_of!(Jumps, second))
}

pub(crate) const PATH: i32 = offset_of!(Context, path) as i32;
/// Masks of the indices of counters, targets and returns.
pub(crate) const PATH_MASKS: [i32; 3] = [
    offset_of!(Context, path_masks) as i32,
    offset_of!(Context, path_masks) as i32 + 8,
    offset_of!(Context, path_masks) as i32 + 16,
];

const fn predictor(field: usize) -> i32 {
    (offset_of!(Context, predictor) + field) as i32
}

pub(crate) const HISTORY: i32 = predictor(offset_of!(Predictor, history));
pub(crate) const RETURNS_TOP: i32 = predictor(offset_of!(Predictor, top));
pub(crate) const COUNTERS: i32 = predictor(offset_of!(Predictor, counters));
const fn tagged(field: usize) -> i32 {
    predictor(offset_of!(Predictor, tagged) + field)
}

/// Fields of the first tagged counter.
pub(crate) const TAGS: i32 = tagged(offset_of!(TaggedCounter, tag));
pub(crate) const TAGGED_COUNTERS: i32 = tagged(offset_of!(TaggedCounter, counter));
pub(crate) const USEFUL: i32 = tagged(offset_of!(TaggedCounter, useful));
/// Address at which a jump continues after the update of its counters.
pub(crate) const TRAIN_BACK: i32 = offset_of!(Context, train) as i32;
/// RAX during the update.
pub(crate) const TRAIN_RAX: i32 = TRAIN_BACK + 8;
/// The index of the counter.
pub(crate) const TRAIN_INDEX: i32 = TRAIN_BACK + 16;
/// The history at the head of a trace.
pub(crate) const TRAIN_HISTORY: i32 = TRAIN_BACK + 24;

/// The mask without so many of the lowest bits, fewer than [`HISTORY_BITS`](super::path::HISTORY_BITS).
pub(crate) const fn history_mask(bits: u32) -> i32 {
    (offset_of!(Context, history_masks) + bits as usize * 8) as i32
}

/// The mask without so many of the lowest bits, fewer than [`HISTORY_JUMPS`](super::path::HISTORY_JUMPS), of a counter.
pub(crate) const fn counter_mask(bits: u32) -> i32 {
    (offset_of!(Context, counter_masks) + bits as usize * 8) as i32
}

pub(crate) const TARGETS: i32 = predictor(offset_of!(Predictor, targets));
pub(crate) const RETURNS: i32 = predictor(offset_of!(Predictor, returns));

const fn path_slot(field: usize, id: u32) -> i32 {
    (offset_of!(Context, path_slots) + id as usize * size_of::<PathSlot>() + field) as i32
}

pub(crate) const fn path_charge(id: u32) -> i32 {
    path_slot(offset_of!(PathSlot, charge), id)
}

pub(crate) const fn path_expected(id: u32) -> i32 {
    path_slot(offset_of!(PathSlot, expected), id)
}

pub(crate) const fn path_next(id: u32) -> i32 {
    path_slot(offset_of!(PathSlot, next), id)
}

pub(crate) const fn path_mispredicted(id: u32) -> i32 {
    path_slot(offset_of!(PathSlot, mispredicted), id)
}

pub(crate) const fn path_segments(id: u32) -> i32 {
    path_slot(offset_of!(PathSlot, segments), id)
}

/// A field of the segment with this number, relative to the offset of a trace's first one.
const fn segment(field: usize, number: usize) -> i32 {
    (offset_of!(Context, trace_segments) + number * size_of::<TraceSegment>() + field) as i32
}

pub(crate) const fn segment_refund(number: usize) -> i32 {
    segment(offset_of!(TraceSegment, refund), number)
}

pub(crate) const fn segment_next(number: usize) -> i32 {
    segment(offset_of!(TraceSegment, next), number)
}

pub(crate) const fn segment_mispredicted(number: usize) -> i32 {
    segment(offset_of!(TraceSegment, mispredicted), number)
}

/// A word of a path slot's content.
pub(crate) const fn path_word(id: u32, word: usize) -> i32 {
    path_slot(word * 8, id)
}

const fn path_entry(field: usize) -> i32 {
    (offset_of!(Context, path_entries) + field) as i32
}

/// A word of the content of the first entry of the table of slots.
pub(crate) const fn path_entry_word(word: usize) -> i32 {
    path_entry(offset_of!(PathEntry, content) + word * 8)
}

pub(crate) const PATH_ENTRY_EXPECTED: i32 =
    path_entry(offset_of!(PathEntry, content) + offset_of!(PathSlot, expected));
pub(crate) const PATH_ENTRY_SLOT: i32 = path_entry(offset_of!(PathEntry, slot));
