//! Stores from the x87's registers that fault, on Intel's processors.

use iced_x86::{Mnemonic as M, OpKind};

use super::{Case, copy};
use crate::machine::{END, Fx, Outcome, PAGE};

/// Fields of the status word: exceptions with their summary, stack fault, the direction of a rounding, and
/// the top of the stack.
const RAISED: u16 = 0x3f;
const SUMMARY: u16 = 0x8080;
const STACK_FAULT: u16 = 1 << 6;
const ROUNDED_UP: u16 = 1 << 9;
const TOP: u16 = 7 << 11;
/// The tags of a full stack, as after MMX instructions.
const FULL: u8 = 0xff;

fn control(fx: &Fx) -> u16 {
    u16::from_le_bytes([fx.0[0], fx.0[1]])
}

fn status(fx: &Fx) -> u16 {
    u16::from_le_bytes([fx.0[2], fx.0[3]])
}

/// The eight registers by their physical numbers, not by their positions on the stack.
fn physical(fx: &Fx) -> [[u8; 10]; 8] {
    let top = usize::from(status(fx) >> 11 & 7);
    std::array::from_fn(|number| {
        let at = 32 + (number + 8 - top) % 8 * 16;
        std::array::from_fn(|byte| fx.0[at + byte])
    })
}

impl Case<'_> {
    /// MMX stores that fault: top of stack and tags are already changed as by an MMX instruction.
    pub(crate) fn store_from_mmx(&self, found: &mut Outcome) {
        let names_mmx = (0..self.instruction.op_count()).any(|at| {
            self.instruction.op_kind(at) == OpKind::Register
                && self.instruction.op_register(at).is_mm()
        });
        if !(self.stores() && names_mmx && self.fault_alike(found)) {
            return;
        }
        let (ours, theirs) = (
            &found.machine.registers.fx,
            &self.expected.machine.registers.fx,
        );
        let same = control(ours) == control(theirs)
            && status(ours) & !TOP == status(theirs) & !TOP
            && physical(ours) == physical(theirs);
        if same && status(theirs) & TOP == 0 && (theirs.0[4] == ours.0[4] || theirs.0[4] == FULL) {
            found.machine.registers.fx.0[..160].copy_from_slice(&theirs.0[..160]);
        }
    }

    /// Stores that raise an x87 exception by their value: it is kept for the next waiting instruction, and
    /// memory is not accessed.
    pub(crate) fn store_from_x87(&self, found: &mut Outcome) {
        let name = self.instruction.mnemonic();
        let stores = self.stores()
            && matches!(
                name,
                M::Fst | M::Fstp | M::Fist | M::Fistp | M::Fisttp | M::Fbstp
            );
        let (ours, theirs) = (
            &found.machine.registers.fx,
            &self.expected.machine.registers.fx,
        );
        let raised = status(theirs) & !control(theirs) & RAISED != 0
            && status(theirs) & SUMMARY == SUMMARY
            && status(ours) & SUMMARY == 0;
        let faults = matches!(found.vector, 12..=14 | 17) && self.expected.rip != found.rip;
        if !(stores && faults && raised) {
            return;
        }
        if self.start.is_none() {
            // The outcome of the following code cannot be compared.
            *found = self.expected.clone();
            return;
        }
        let rest = RAISED | SUMMARY | STACK_FAULT | ROUNDED_UP;
        let mut changed = found.machine.clone();
        let told = status(ours) & !rest | status(theirs) & rest;
        changed.registers.fx.0[2..4].copy_from_slice(&told.to_le_bytes());
        let ends = self.expected.vector == END && self.expected.rip == self.instruction.next_ip();
        if ends && changed == self.expected.machine {
            *found = self.expected.clone();
        }
    }

    /// FSTP and FBSTP of 10 bytes across the end of a page: the bytes before it are stored.
    pub(crate) fn store_of_ten_bytes(&self, found: &mut Outcome) {
        let place = self.linear / PAGE * PAGE + PAGE;
        let stores = self.stores()
            && matches!(self.instruction.mnemonic(), M::Fstp | M::Fbstp)
            && self.bytes == 10;
        let beyond = found.vector == 14 && found.address.is_some_and(|at| at >= place);
        if stores && beyond && self.fault_alike(found) {
            let before = (place - self.linear).min(10);
            copy(
                &mut found.machine,
                &self.expected.machine,
                self.linear,
                before,
            );
        }
    }
}
