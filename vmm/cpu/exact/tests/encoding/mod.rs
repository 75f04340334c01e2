//! Random encodings of instruction forms.

use crate::bare::CODE;
use belljar_sim::Random;
use iced_x86::{
    Code, CpuidFeature, Encoder, FlowControl, Instruction, Mnemonic, OpCodeOperandKind as Kind,
    OpKind, Register,
};

fn is_offered(code: Code) -> bool {
    use CpuidFeature as F;
    code.cpuid_features().iter().all(|feature| {
        matches!(
            feature,
            F::INTEL8086
                | F::INTEL186
                | F::INTEL286
                | F::INTEL386
                | F::INTEL486
                | F::X64
                | F::CMOV
                | F::CX8
                | F::CMPXCHG16B
                | F::FPU
                | F::FPU287
                | F::FPU387
                | F::MMX
                | F::MULTIBYTENOP
                | F::POPCNT
                | F::SSE
                | F::SSE2
                | F::SSE3
                | F::SSSE3
                | F::SSE4_1
                | F::SSE4_2
                | F::PAUSE
        )
    })
}

/// Forms that cannot be run side by side: privileged ones, control transfers, and
/// those whose answer is the machine's own.
pub(crate) fn is_comparable(code: Code) -> bool {
    use Mnemonic as M;
    let op_code = code.op_code();
    op_code.mode64()
        && op_code.is_instruction()
        && is_offered(code)
        && !op_code.is_privileged()
        && code.flow_control() == FlowControl::Next
        && !op_code.can_use_lock_prefix_only_system()
        && !matches!(
            code.mnemonic(),
            M::In
                | M::Out
                | M::Insb
                | M::Insw
                | M::Insd
                | M::Outsb
                | M::Outsw
                | M::Outsd
                | M::Cli
                | M::Sti
                | M::Cld
                | M::Std
                | M::Pushf
                | M::Pushfq
                | M::Popf
                | M::Popfq
                | M::Sgdt
                | M::Sidt
                | M::Sldt
                | M::Str
                | M::Smsw
                | M::Verr
                | M::Verw
                | M::Lar
                | M::Lsl
                | M::Lfs
                | M::Lgs
                | M::Lss
                | M::Enter
                | M::Leave
                | M::Ud0
                | M::Ud1
                | M::Ud2
                | M::Fnstenv
                | M::Fldenv
                | M::Fnsave
                | M::Frstor
                | M::Rdpmc
                | M::Fldcw
                | M::Ldmxcsr
                | M::Maskmovq
                | M::Maskmovdqu
                | M::Clflush
                | M::Zero_bytes
                | M::INVALID
                | M::Feni
                | M::Fneni
                | M::Fdisi
                | M::Fndisi
                | M::Fsetpm
                | M::Fnsetpm
                | M::Frstpm
                | M::Fstdw
                | M::Fstsg
                | M::Fstenv
                | M::Fsave
                | M::Wait
                | M::Reservednop
                | M::Loadall
                | M::Umov
                | M::Xbts
                | M::Ibts
        )
}

trait OpCodeExt {
    fn can_use_lock_prefix_only_system(&self) -> bool;
}

impl OpCodeExt for iced_x86::OpCodeInfo {
    /// MOV with segment, control and debug registers.
    fn can_use_lock_prefix_only_system(&self) -> bool {
        self.op_kinds().iter().any(|kind| {
            matches!(
                kind,
                Kind::seg_reg
                    | Kind::cr_reg
                    | Kind::dr_reg
                    | Kind::tr_reg
                    | Kind::fs
                    | Kind::gs
                    | Kind::ss
                    | Kind::cs
                    | Kind::ds
                    | Kind::es
            )
        })
    }
}

pub(crate) struct Dice(pub(crate) Random);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A value that is often at an edge.
    pub(crate) fn value(&mut self) -> u64 {
        match self.below(6) {
            0 => self.pick(&[
                0,
                1,
                u64::MAX,
                1 << 63,
                i64::MAX as u64,
                0x80,
                0x8000,
                0x8000_0000,
                0x7fff_ffff,
                0xff,
            ]),
            1 => self.below(256),
            2 => (self.below(256) as i64 - 128) as u64,
            _ => self.0.next_u64(),
        }
    }
}

const GPR64: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

fn sized(number: usize, size: usize) -> Register {
    let base = match size {
        1 => [
            Register::AL,
            Register::CL,
            Register::DL,
            Register::BL,
            Register::SPL,
            Register::BPL,
            Register::SIL,
            Register::DIL,
            Register::R8L,
            Register::R9L,
            Register::R10L,
            Register::R11L,
            Register::R12L,
            Register::R13L,
            Register::R14L,
            Register::R15L,
        ],
        2 => std::array::from_fn(|i| Register::AX + i as u32),
        4 => std::array::from_fn(|i| Register::EAX + i as u32),
        _ => GPR64,
    };
    base[number]
}

/// A general register; R14 and R15 come up more often than others. Division keeps
/// off its own implicit operands.
fn general(dice: &mut Dice, size: usize, keep_off: bool) -> Register {
    loop {
        let number = if dice.below(3) == 0 {
            14 + dice.below(2)
        } else {
            dice.below(16)
        } as usize;
        if keep_off && (number == 0 || number == 2) {
            continue;
        }
        if size == 1 && !keep_off && dice.below(6) == 0 {
            return dice.pick(&[Register::AH, Register::CH, Register::DH, Register::BH]);
        }
        return sized(number, size);
    }
}

/// An encoding under test.
pub(crate) struct Form {
    pub(crate) instruction: Instruction,
    /// Registers that make up the address: base, and index with its scale.
    pub(crate) base: Option<usize>,
    pub(crate) index: Option<usize>,
    pub(crate) divides: bool,
}

fn set_memory(dice: &mut Dice, form: &mut Form) {
    let keep_off = form.divides;
    let base = general(dice, 8, keep_off);
    form.base = Some(base.number());
    form.instruction.set_memory_base(base);
    if dice.below(2) == 0 {
        let index = loop {
            let index = general(dice, 8, keep_off);
            if index != Register::RSP && index != base {
                break index;
            }
        };
        form.index = Some(index.number());
        form.instruction.set_memory_index(index);
        form.instruction
            .set_memory_index_scale(dice.pick(&[1, 2, 4, 8]));
    }
    let displacement = dice.pick(&[0, 16, -32, 4096, -65536]);
    form.instruction
        .set_memory_displacement64(displacement as u64);
    form.instruction
        .set_memory_displ_size(if displacement == 0 { 0 } else { 8 });
}

/// Fills in operand `index` of kind `kind`; `None` when the form has an operand
/// that this suite does not make.
#[allow(clippy::too_many_lines)] // one arm for each kind of operand
fn set_operand(
    dice: &mut Dice,
    form: &mut Form,
    index: u32,
    kind: Kind,
    memory: bool,
) -> Option<()> {
    use Kind as K;
    let keep_off = form.divides;
    let register = |form: &mut Form, register| {
        form.instruction.set_op_kind(index, OpKind::Register);
        form.instruction.set_op_register(index, register);
    };
    match kind {
        K::mem | K::mem_offs => {
            form.instruction.set_op_kind(index, OpKind::Memory);
            set_memory(dice, form);
        }
        K::r8_or_mem
        | K::r16_or_mem
        | K::r32_or_mem
        | K::r64_or_mem
        | K::r32_or_mem_mpx
        | K::xmm_or_mem
        | K::mm_or_mem
            if memory =>
        {
            form.instruction.set_op_kind(index, OpKind::Memory);
            set_memory(dice, form);
        }
        K::r8_or_mem | K::r8_reg | K::r8_opcode => register(form, general(dice, 1, keep_off)),
        K::r16_or_mem | K::r16_reg | K::r16_reg_mem | K::r16_rm | K::r16_opcode => {
            register(form, general(dice, 2, keep_off))
        }
        K::r32_or_mem | K::r32_reg | K::r32_reg_mem | K::r32_rm | K::r32_opcode => {
            register(form, general(dice, 4, keep_off))
        }
        K::r64_or_mem | K::r64_reg | K::r64_reg_mem | K::r64_rm | K::r64_opcode => {
            register(form, general(dice, 8, keep_off))
        }
        K::xmm_or_mem | K::xmm_reg | K::xmm_rm => {
            register(form, Register::XMM0 + dice.below(16) as u32)
        }
        K::mm_or_mem | K::mm_reg | K::mm_rm => register(form, Register::MM0 + dice.below(8) as u32),
        K::al => register(form, Register::AL),
        K::cl => register(form, Register::CL),
        K::ax => register(form, Register::AX),
        K::dx => register(form, Register::DX),
        K::eax => register(form, Register::EAX),
        K::rax => register(form, Register::RAX),
        K::st0 => register(form, Register::ST0),
        K::sti_opcode => register(form, Register::ST0 + dice.below(8) as u32),
        K::imm8 | K::imm8_const_1 => {
            form.instruction.set_op_kind(index, OpKind::Immediate8);
            let value = if kind == K::imm8_const_1 {
                1
            } else {
                dice.value()
            };
            form.instruction.set_immediate8(value as u8);
        }
        K::imm8sex16 => immediate(
            form,
            index,
            OpKind::Immediate8to16,
            dice.value() as i8 as u64,
        ),
        K::imm8sex32 => immediate(
            form,
            index,
            OpKind::Immediate8to32,
            dice.value() as i8 as u64,
        ),
        K::imm8sex64 => immediate(
            form,
            index,
            OpKind::Immediate8to64,
            dice.value() as i8 as u64,
        ),
        K::imm16 => immediate(form, index, OpKind::Immediate16, dice.value()),
        K::imm32 => immediate(form, index, OpKind::Immediate32, dice.value()),
        K::imm32sex64 => immediate(
            form,
            index,
            OpKind::Immediate32to64,
            dice.value() as i32 as u64,
        ),
        K::imm64 => immediate(form, index, OpKind::Immediate64, dice.value()),
        K::seg_rSI => form.instruction.set_op_kind(index, OpKind::MemorySegRSI),
        K::es_rDI => form.instruction.set_op_kind(index, OpKind::MemoryESRDI),
        _ => return None,
    }
    Some(())
}

fn immediate(form: &mut Form, index: u32, kind: OpKind, value: u64) {
    form.instruction.set_op_kind(index, kind);
    match kind {
        OpKind::Immediate8to16 => form.instruction.set_immediate8to16(value as i16),
        OpKind::Immediate8to32 => form.instruction.set_immediate8to32(value as i32),
        OpKind::Immediate8to64 => form.instruction.set_immediate8to64(value as i64),
        OpKind::Immediate16 => form.instruction.set_immediate16(value as u16),
        OpKind::Immediate32 => form.instruction.set_immediate32(value as u32),
        OpKind::Immediate32to64 => form.instruction.set_immediate32to64(value as i64),
        _ => form.instruction.set_immediate64(value),
    }
}

/// A random encoding of `code`: the bytes, too.
pub(crate) fn make(dice: &mut Dice, code: Code, memory: bool) -> Option<(Form, Vec<u8>)> {
    for _ in 0..32 {
        let mut instruction = Instruction::default();
        instruction.set_code(code);
        let divides = matches!(code.mnemonic(), Mnemonic::Div | Mnemonic::Idiv);
        let mut form = Form {
            instruction,
            base: None,
            index: None,
            divides,
        };
        for (index, &kind) in code.op_code().op_kinds().iter().enumerate() {
            set_operand(dice, &mut form, index as u32, kind, memory)?;
        }
        let mut encoder = Encoder::new(64);
        if encoder.encode(&form.instruction, CODE).is_ok() {
            return Some((form, encoder.take_buffer()));
        }
    }
    None
}

pub(crate) fn has_memory_form(code: Code) -> bool {
    code.op_code().op_kinds().iter().any(|kind| {
        matches!(
            kind,
            Kind::r8_or_mem
                | Kind::r16_or_mem
                | Kind::r32_or_mem
                | Kind::r64_or_mem
                | Kind::xmm_or_mem
                | Kind::mm_or_mem
        )
    })
}
