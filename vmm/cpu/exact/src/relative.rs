//! Code that is translated once, wherever it is mapped.
//!
//! Processes run the same pages of programs and libraries at other addresses each (address
//! space layout randomization, position-independent executables). What a user runs beyond the
//! first 4 GiB is translated as if its page began at address zero: the addresses that it names
//! count from the page's beginning, and the context has where that is mapped,
//! [`code_page`](crate::context::Context::code_page). Jumps within the page lead from block to
//! block, as the page stays the same. Whatever comes from elsewhere enters by a door: a few
//! instructions for one RIP which see that they are the right ones, as blocks with addresses of
//! their own do, say where the page is, and jump to the block.
//!
//! Blocks that reach into a second page, and those which name addresses that do not move with
//! them, have addresses of their own. So has code that a node shares with others.

use belljar_abi::{STUB_BASE, STUB_LENGTH};
use belljar_cpu::PAGE_SIZE;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::block::{Mode, Origin, Pace};
use crate::decode::{Decoded, GuestBlock, MAX_BYTES, MAX_INSTRUCTIONS, decode};
use crate::flush::is_above;
use crate::index::Found;
use crate::size::CodeSize;
use crate::vcpu::ExactVcpu;

/// What addresses are from the page's beginning at most: a displacement holds the sum.
const FARTHEST: i64 = i32::MAX as i64 - (1 << 16);

/// RIP and mode of code at `rip` in `mode` where it is relative; `None` where it must have
/// addresses of its own.
pub(crate) fn relative(rip: u64, mode: Mode) -> Option<(u64, Mode)> {
    let moves = mode.user && mode.size == CodeSize::Long && rip >> 32 != 0 && !is_above(rip);
    let is_stub = rip.wrapping_sub(STUB_BASE) < STUB_LENGTH;
    let mode = Mode {
        relative: true,
        ..mode
    };
    (moves && !is_stub).then_some((rip % PAGE_SIZE, mode))
}

/// An instruction as it is decoded `by` bytes further on.
pub(crate) fn moved(instruction: &Instruction, by: u64) -> Instruction {
    let mut moved = *instruction;
    moved.set_ip(instruction.ip().wrapping_add(by));
    if instruction.is_ip_rel_memory_operand() {
        let address = instruction.memory_displacement64();
        moved.set_memory_displacement64(address.wrapping_add(by));
    }
    if instruction.op0_kind() == OpKind::NearBranch64 {
        moved.set_near_branch64(instruction.near_branch64().wrapping_add(by));
    }
    moved
}

/// Whether all addresses that `block` names move with it, and are near.
fn moves_as_one(block: &GuestBlock) -> bool {
    let instructions = block.instructions.iter();
    instructions.map(|guest| &guest.instruction).all(moves)
}

fn moves(instruction: &Instruction) -> bool {
    let near = |address: u64| (address as i64).abs() < FARTHEST;
    if instruction.op0_kind() == OpKind::NearBranch64 {
        return near(instruction.near_branch64());
    }
    let memory =
        (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    if !memory || (base != Register::None && !instruction.is_ip_rel_memory_operand()) {
        return true;
    }
    let segment = matches!(instruction.memory_segment(), Register::FS | Register::GS);
    if !instruction.is_ip_rel_memory_operand() {
        // A number is where it is.
        return segment || index != Register::None;
    }
    let narrow = instruction.mnemonic() == Mnemonic::Lea && instruction.op0_register().size() != 8;
    base == Register::RIP && !segment && !narrow && near(instruction.memory_displacement64())
}

impl ExactVcpu {
    /// What the addresses of code that runs count from.
    pub(crate) fn origin_of(&self, relative: bool) -> u64 {
        if relative { self.context.code_page } else { 0 }
    }

    /// The block that stands at `rip` and `physical`, relative to its page, translated if need
    /// be; `None` if there is none. As [`find_block`](Self::find_block).
    pub(crate) fn relative_block(
        &mut self,
        (rip, physical): (u64, u64),
        mode: Mode,
        plain: bool,
        linked: bool,
    ) -> Option<Found> {
        let wants_door = mode.pace == Pace::Full && !plain && !linked;
        if wants_door && let Some(door) = self.store.find_door(rip, physical, mode) {
            self.keep_jumps_to(mode);
            let jumps = &mut self.context.views[usize::from(mode.user)].jumps;
            jumps.set(rip, door.indirect_entry);
            return Some(door);
        }
        let known = self.store.find_relative(rip, physical, mode, plain);
        let found = match known {
            Some(found) => found,
            None => self.translate_relative(rip, physical, mode)?,
        };
        if wants_door && let Some(door) = self.store.add_door(rip, physical, mode, found) {
            self.keep_jumps_to(mode);
            let jumps = &mut self.context.views[usize::from(mode.user)].jumps;
            jumps.set(rip, door.indirect_entry);
        }
        Some(found)
    }

    fn translate_relative(&mut self, rip: u64, physical: u64, mode: Mode) -> Option<Found> {
        let (rip, mode) = self.store.relative_at(rip, mode)?;
        let guest = self.decode_within(rip, physical, mode)?;
        if !self.store.has_room() {
            self.flush_code();
        }
        self.watch_page(physical);
        let origin = Origin {
            first: physical,
            second: None,
        };
        let found = self.store.add(&guest, origin, mode, false, false);
        self.statistics.translated += guest.instructions.len() as u64;
        self.begin_heats();
        Some(found)
    }

    /// Decodes a block at `rip` in `mode` that lies within its page, and, where it is relative,
    /// may be so.
    pub(crate) fn decode_within(&self, rip: u64, physical: u64, mode: Mode) -> Option<GuestBlock> {
        let limit = mode.pace.limit();
        let mut bytes = [0u8; MAX_INSTRUCTIONS * MAX_BYTES];
        let left = ((PAGE_SIZE - physical % PAGE_SIZE) as usize).min(limit * MAX_BYTES);
        if !self.memory.read(physical, &mut bytes[..left]) {
            return None;
        }
        match decode(rip, &bytes[..left], limit, &self.features_now()) {
            Decoded::Block(block) if !mode.relative || moves_as_one(&block) => Some(block),
            _ => None,
        }
    }
}
