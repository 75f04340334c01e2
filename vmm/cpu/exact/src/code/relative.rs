//! Code that is translated relative to its page, and its instructions at their mapped addresses.
//!
//! `find` decides whether code is relative; `store` and `visit` place and relocate it.

use belljar_abi::{STUB_BASE, STUB_LENGTH};
use belljar_cpu::PAGE_SIZE;
use belljar_translate::architecture::is_above;
use belljar_translate::guest::decode::GuestBlock;
use belljar_translate::guest::mode::Mode;
use belljar_translate::guest::size::CodeSize;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// The largest offset from the page's beginning: the sum must fit a displacement.
const FARTHEST: i64 = i32::MAX as i64 - (1 << 16);

/// RIP and mode of code at `rip` in `mode`, if it is translated relative to its page; `None` if it
/// must have absolute addresses.
pub(crate) fn relative(rip: u64, mode: Mode) -> Option<(u64, Mode)> {
    let moves = mode.user && mode.size == CodeSize::Long && rip >> 32 != 0 && !is_above(rip);
    let is_stub = rip.wrapping_sub(STUB_BASE) < STUB_LENGTH;
    let mode = Mode {
        relative: true,
        ..mode
    };
    (moves && !is_stub).then_some((rip % PAGE_SIZE, mode))
}

/// The instruction relocated by `by` bytes.
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

/// True if all addresses in `block` are relative to its RIP, and near.
pub(crate) fn moves_as_one(block: &GuestBlock) -> bool {
    let instructions = block.instructions.iter();
    instructions.map(|guest| &guest.instruction).all(moves)
}

fn moves(instruction: &Instruction) -> bool {
    let near = |address: u64| (address as i64).abs() < FARTHEST;
    match instruction.op0_kind() {
        OpKind::NearBranch64 => return near(instruction.near_branch64()),
        OpKind::NearBranch16 | OpKind::NearBranch32 => return false,
        _ => {}
    }
    let memory =
        (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    if !memory || (base != Register::None && !instruction.is_ip_rel_memory_operand()) {
        return true;
    }
    let segment = matches!(instruction.memory_segment(), Register::FS | Register::GS);
    if !instruction.is_ip_rel_memory_operand() {
        // A constant address does not move.
        return segment || index != Register::None;
    }
    let narrow = instruction.mnemonic() == Mnemonic::Lea && instruction.op0_register().size() != 8;
    base == Register::RIP && !segment && !narrow && near(instruction.memory_displacement64())
}

#[cfg(test)]
mod tests {
    use iced_x86::code_asm::*;

    use super::*;
    use belljar_translate::guest::mode::Pace;
    use belljar_translate::guest::size::Nulls;

    const USER: Mode = Mode {
        user: true,
        fpu: true,
        pace: Pace::Full,
        free_stubs: false,
        size: CodeSize::Long,
        nulls: Nulls::NONE,
        skew: 0,
        features: 0,
        relative: false,
        apart: false,
    };

    #[test]
    fn users_beyond_4_gib_count_from_their_page() {
        let place = |rip, mode| relative(rip, mode).map(|(rip, mode)| (rip, mode.relative));
        assert_eq!(place(0x7fff_1234_5678, USER), Some((0x678, true)));
        let kernel = Mode {
            user: false,
            ..USER
        };
        let legacy = Mode {
            size: CodeSize::Flat32,
            ..USER
        };
        for (rip, mode) in [
            (0x7fff_1234_5678, kernel),
            (0x7fff_1234_5678, legacy),
            (0xffff_ffff, USER),
            (0xffff_ffff_ff60_0000, USER),
        ] {
            assert_eq!(place(rip, mode), None, "{rip:#x}");
        }
        assert!(relative(STUB_BASE, USER).is_none());
    }

    #[test]
    fn only_what_names_nothing_fixed_moves() {
        type Build = fn(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>;
        let moving: [Build; 6] = [
            |a| a.mov(rax, qword_ptr(rbx + 8)),
            |a| a.mov(rax, qword_ptr(0x18).fs()),
            |a| a.mov(rax, qword_ptr(rbx * 8 + 0x40_0000)),
            |a| a.jmp(0x1234),
            |a| a.call(0x7000_1234),
            |a| a.add(rax, rbx),
        ];
        let fixed: [Build; 3] = [
            |a| a.mov(rax, qword_ptr(0x40_0000)),
            |a| a.lea(eax, ptr(0x40_0000)),
            |a| a.call(0x7fff_f000),
        ];
        let alone = |build: &Build| moves(&assembled(*build));
        assert!(moving.iter().all(alone));
        assert!(!fixed.iter().any(alone));
    }

    /// The instruction that `build` assembles at 0x1000.
    fn assembled(build: fn(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>) -> Instruction {
        let mut assembler = CodeAssembler::new(64).expect("64 bits");
        build(&mut assembler).expect("it can be encoded");
        let bytes = assembler.assemble(0x1000).expect("it assembles");
        iced_x86::Decoder::with_ip(64, &bytes, 0x1000, 0).decode()
    }

    #[test]
    fn what_is_relative_to_rip_moves_if_all_of_it_is_named() {
        // mov rax, [rip]; mov rax, [eip]; lea rax, [rip]; lea eax, [rip]; mov rax, fs:[rip]
        let forms: [(&[u8], bool); 5] = [
            (&[0x48, 0x8b, 0x05, 0, 0, 0, 0], true),
            (&[0x67, 0x48, 0x8b, 0x05, 0, 0, 0, 0], false),
            (&[0x48, 0x8d, 0x05, 0, 0, 0, 0], true),
            (&[0x8d, 0x05, 0, 0, 0, 0], false),
            (&[0x64, 0x48, 0x8b, 0x05, 0, 0, 0, 0], false),
        ];
        for (bytes, expected) in forms {
            let instruction = iced_x86::Decoder::with_ip(64, bytes, 0x123, 0).decode();
            assert_eq!(moves(&instruction), expected, "{instruction}");
            let there = iced_x86::Decoder::with_ip(64, bytes, 0x7000_0123, 0).decode();
            assert_eq!(moved(&instruction, 0x7000_0000), there);
            let operand = |one: &Instruction| one.memory_displacement64();
            if expected {
                assert_eq!(operand(&moved(&instruction, 0x7000_0000)), operand(&there));
            }
        }
    }
}
