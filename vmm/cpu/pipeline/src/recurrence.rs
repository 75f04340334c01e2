//! Loads whose address depends on an earlier execution of the same load, as in a linked list.
//!
//! A register depends on a load if it was computed from its data, through registers alone. `paths` has the result for
//! the last block of each path; the time of misses depends on it.

use crate::cost::PathBlock;
use crate::uops::{FLAGS, REGISTERS, RegisterSet};

/// The recurrent loads of the last block of `path`: a bit for each instruction.
pub(crate) fn recurrent_loads(path: &[PathBlock<'_>]) -> u64 {
    let Some((last, before)) = path.split_last() else {
        return 0;
    };
    let mut known = Dependencies {
        registers: [0; REGISTERS],
    };
    for one in before {
        for (op, &address) in one.block.ops().iter().zip(one.block.addresses()) {
            let number = last
                .block
                .addresses()
                .iter()
                .position(|&known| known == address);
            known.execute(op, number);
        }
    }
    let mut found = 0;
    for (number, op) in last.block.ops().iter().enumerate() {
        let own = 1 << number;
        found |= known.execute(op, Some(number)) & own;
    }
    found
}

/// For each register, the loads of the last block that its value depends on.
struct Dependencies {
    registers: [u64; REGISTERS],
}

impl Dependencies {
    /// Executes an instruction, which is number `number` of the last block. Returns the loads that its address depends
    /// on.
    fn execute(&mut self, op: &crate::uops::MicroOp, number: Option<usize>) -> u64 {
        let address = self.of(op.addresses);
        let mut result = self.of(op.sources & !(1 << FLAGS));
        if op.load.is_some() {
            result |= address | number.map_or(0, |number| 1 << number);
        }
        let mut left = op.targets & !(1 << FLAGS);
        while left != 0 {
            self.registers[left.trailing_zeros() as usize] = result;
            left &= left - 1;
        }
        address
    }

    fn of(&self, registers: RegisterSet) -> u64 {
        let (mut left, mut all) = (registers, 0);
        while left != 0 {
            all |= self.registers[left.trailing_zeros() as usize];
            left &= left - 1;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::code_asm::*;
    use iced_x86::{Decoder, Instruction};

    use super::*;
    use crate::cost::TimingBlock;

    fn block(make: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>) -> TimingBlock {
        let mut a = CodeAssembler::new(64).unwrap();
        make(&mut a).unwrap();
        let bytes = a.assemble(0x40_0000).unwrap();
        let all: Vec<Instruction> = Decoder::with_ip(64, &bytes, 0x40_0000, 0)
            .into_iter()
            .collect();
        TimingBlock::new(&all)
    }

    fn of(block: &TimingBlock, times: usize) -> u64 {
        let one = PathBlock {
            block,
            mispredicted: false,
        };
        recurrent_loads(&vec![one; times])
    }

    #[test]
    fn only_loads_that_need_their_own_data_are_recurrent() {
        let block = block(|a| {
            a.mov(rax, qword_ptr(rax))?;
            a.mov(rcx, qword_ptr(rsi))?;
            a.add(rsi, 8)?;
            a.mov(rdx, qword_ptr(rax + 8))?;
            a.lea(rdi, qword_ptr(rdi + rbx * 2))?;
            a.mov(rbx, qword_ptr(rdi))?;
            a.mov(r8, qword_ptr(rbx))?;
            a.xor(r8, r8)
        });
        // The list's first load; and the load that needs itself through RBX and RDI.
        assert_eq!(of(&block, 2), 1 | 1 << 5);
        assert_eq!(of(&block, 1), 0, "nothing ran before");
    }

    #[test]
    fn an_instruction_that_overwrites_breaks_the_dependency() {
        let block = block(|a| {
            a.mov(rax, qword_ptr(rax))?;
            a.and(rax, 0xff)?;
            a.xor(eax, eax)
        });
        assert_eq!(of(&block, 3), 0);
    }
}
