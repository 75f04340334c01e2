//! Host registers that a trace uses for other purposes than the guest registers of the same names.
//!
//! Two guest registers are kept in memory, and may be exchanged with two others; see
//! [`rename`](crate::guest::rename). A guest register that no instruction of the trace uses lends
//! its host register: its value waits in the context, and the host register holds an addend of the
//! accesses' addresses, which would otherwise be reloaded repeatedly.

use bincode::{Decode, Encode};
use iced_x86::InstructionInfoFactory;

use crate::context::LENT;
use crate::guest::decode::{GuestInstruction, Renamed};
use crate::host::asm::{RCX, RSP, Reg, S0};

/// A trace's use of host registers, valid from its entry to its exits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Allocation {
    /// The registers exchanged with R14 and R15.
    pub renamed: Renamed,
    /// The registers lent to the trace.
    pub lent: Lent,
}

impl Allocation {
    /// True if its numbers are registers': false only for a damaged saved one.
    pub fn is_possible(&self) -> bool {
        let renamed = self.renamed.into_iter().flatten();
        self.lent.count <= LENT
            && self.lent.registers.iter().all(|&register| register < 16)
            && renamed.into_iter().all(|register| register < 16)
    }

    /// True if every guest register is in its usual place.
    pub(crate) fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// Lent registers, each with a save slot in the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Lent {
    registers: [Reg; LENT],
    count: usize,
}

impl Lent {
    /// The first `count` of `registers`, as far as slots are available.
    pub(crate) fn first(registers: &[Reg], count: usize) -> Self {
        let mut lent = Self::default();
        for &register in registers.iter().take(count.min(LENT)) {
            lent.registers[lent.count] = register;
            lent.count += 1;
        }
        lent
    }

    /// The registers, in the order of their slots.
    #[inline]
    pub fn registers(&self) -> &[Reg] {
        &self.registers[..self.count]
    }
}

/// The registers that `run` does not use. RCX is excluded, because translated sequences borrow it,
/// and so are RSP and the registers exchanged with R14 and R15, which hold values.
pub(crate) fn unused(run: &[GuestInstruction], renamed: Renamed) -> Vec<Reg> {
    let mut info = InstructionInfoFactory::new();
    let mut used = 1u32 << RCX | 1 << RSP;
    for register in renamed.into_iter().flatten() {
        used |= 1 << register;
    }
    for guest in run {
        let info = info.info(&guest.instruction);
        let named = info.used_registers().iter().map(|used| used.register());
        let memory = info.used_memory();
        let places = memory.iter().flat_map(|used| [used.base(), used.index()]);
        for register in named.chain(places) {
            let full = register.full_register();
            if full.is_gpr64() {
                used |= 1 << full.number();
            }
        }
    }
    (0..S0)
        .filter(|register| used >> register & 1 == 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use iced_x86::code_asm::*;

    use super::*;
    use crate::guest::decode::assembled;

    #[test]
    fn what_is_named_by_an_instruction_or_its_address_is_not_lent() {
        let run = assembled(|a| {
            a.mov(al, byte_ptr(rsi + r9 * 2)).unwrap();
            a.add(dx, bx).unwrap();
            a.mul(r8d).unwrap();
            a.movsq().unwrap();
        });
        assert_eq!(unused(&run, None), [5, 10, 11, 12, 13]);
        assert_eq!(unused(&run, Some([11, 12])), [5, 10, 13]);
        assert_eq!(Lent::first(&[5, 10, 13], 2).registers(), [5, 10]);
        assert_eq!(Lent::first(&[5, 10], 9).registers(), [5, 10]);
    }
}
