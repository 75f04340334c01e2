//! Random encodings of instruction forms.

/// Selection of available and comparable forms.
mod choice;

pub use choice::{has_memory_form, is_comparable, is_offered};

use belljar_sim::Random;
use iced_x86::{
    Code, Encoder, Instruction, Mnemonic, OpCodeOperandKind as Kind, OpKind, Register,
    RoundingControl,
};

use crate::machine::CODE_AT;

pub struct Dice(pub Random);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A random value, often an edge case.
    pub fn value(&mut self) -> u64 {
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

/// A general register; R14 and R15 are more frequent than others. Divisions avoid their implicit
/// operands.
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
#[derive(Clone, Debug)]
pub struct Form {
    pub instruction: Instruction,
    /// Registers of the address: base, and a general index with its scale.
    pub base: Option<usize>,
    pub index: Option<usize>,
    /// A vector of indices: its number, and the size of an index.
    pub vector_index: Option<(usize, usize)>,
}

impl Form {
    /// True if it accesses memory through an address that can be chosen.
    pub fn has_address(&self) -> bool {
        self.base.is_some()
    }

    pub fn divides(&self) -> bool {
        matches!(self.instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv)
    }
}

fn set_memory(dice: &mut Dice, form: &mut Form, vector: Option<(Register, usize)>) {
    let base = general(dice, 8, form.divides());
    form.base = Some(base.number());
    form.instruction.set_memory_base(base);
    if let Some((first, bytes)) = vector {
        let count = if form.instruction.code().op_code().encoding() == iced_x86::EncodingKind::EVEX
        {
            32
        } else {
            16
        };
        let index = first + dice.below(count) as u32;
        form.vector_index = Some((index.number(), bytes));
        form.instruction.set_memory_index(index);
        form.instruction
            .set_memory_index_scale(dice.pick(&[1, 2, 4, 8]));
    } else if dice.below(2) == 0 {
        let index = loop {
            let index = general(dice, 8, form.divides());
            if index != Register::RSP && index != base {
                break index;
            }
        };
        form.index = Some(index.number());
        form.instruction.set_memory_index(index);
        form.instruction
            .set_memory_index_scale(dice.pick(&[1, 2, 4, 8]));
    }
    let displacement = dice.pick(&[0, 16, -32, 64, -128, 4096, -65536]);
    form.instruction
        .set_memory_displacement64(displacement as u64);
    form.instruction
        .set_memory_displ_size(if displacement == 0 { 0 } else { 8 });
}

/// The memory operand of a kind; for a vector of indices, the first register and the size of an
/// index.
fn memory_kind(kind: Kind, memory: bool) -> Option<Option<(Register, usize)>> {
    use Kind as K;
    match kind {
        K::mem | K::mem_mib => Some(None),
        K::mem_vsib32x => Some(Some((Register::XMM0, 4))),
        K::mem_vsib64x => Some(Some((Register::XMM0, 8))),
        K::mem_vsib32y => Some(Some((Register::YMM0, 4))),
        K::mem_vsib64y => Some(Some((Register::YMM0, 8))),
        K::mem_vsib32z => Some(Some((Register::ZMM0, 4))),
        K::mem_vsib64z => Some(Some((Register::ZMM0, 8))),
        K::r8_or_mem | K::r16_or_mem | K::r32_or_mem | K::r64_or_mem if memory => Some(None),
        K::mm_or_mem | K::xmm_or_mem | K::ymm_or_mem | K::zmm_or_mem | K::k_or_mem if memory => {
            Some(None)
        }
        _ => None,
    }
}

/// The register operand of a kind.
fn register_kind(dice: &mut Dice, form: &Form, kind: Kind) -> Option<Register> {
    use Kind as K;
    let keep_off = form.divides();
    let op_code = form.instruction.code().op_code();
    let wide = op_code.encoding() == iced_x86::EncodingKind::EVEX;
    let mut vector = |first: Register| first + dice.below(if wide { 32 } else { 16 }) as u32;
    Some(match kind {
        K::xmm_or_mem | K::xmm_reg | K::xmm_rm | K::xmm_vvvv | K::xmm_is4 => vector(Register::XMM0),
        K::ymm_or_mem | K::ymm_reg | K::ymm_rm | K::ymm_vvvv | K::ymm_is4 => vector(Register::YMM0),
        K::zmm_or_mem | K::zmm_reg | K::zmm_rm | K::zmm_vvvv => vector(Register::ZMM0),
        K::xmmp3_vvvv => Register::XMM0 + dice.below(8) as u32 * 4,
        K::zmmp3_vvvv => Register::ZMM0 + dice.below(8) as u32 * 4,
        K::k_or_mem | K::k_reg | K::k_rm | K::k_vvvv => Register::K0 + dice.below(8) as u32,
        K::kp1_reg => Register::K0 + dice.below(4) as u32 * 2,
        K::mm_or_mem | K::mm_reg | K::mm_rm => Register::MM0 + dice.below(8) as u32,
        K::r8_or_mem | K::r8_reg | K::r8_opcode => general(dice, 1, keep_off),
        K::r16_or_mem | K::r16_reg | K::r16_reg_mem | K::r16_rm | K::r16_opcode => {
            general(dice, 2, keep_off)
        }
        K::r32_or_mem | K::r32_reg | K::r32_reg_mem | K::r32_rm | K::r32_opcode | K::r32_vvvv => {
            general(dice, 4, keep_off)
        }
        K::r64_or_mem | K::r64_reg | K::r64_reg_mem | K::r64_rm | K::r64_opcode | K::r64_vvvv => {
            general(dice, 8, keep_off)
        }
        K::al => Register::AL,
        K::cl => Register::CL,
        K::ax => Register::AX,
        K::dx => Register::DX,
        K::eax => Register::EAX,
        K::rax => Register::RAX,
        K::st0 => Register::ST0,
        K::sti_opcode => Register::ST0 + dice.below(8) as u32,
        _ => return None,
    })
}

/// Fills in operand `index` of kind `kind`; `None` if this suite does not generate the operand.
fn set_operand(
    dice: &mut Dice,
    form: &mut Form,
    index: u32,
    kind: Kind,
    memory: bool,
) -> Option<()> {
    if let Some(vector) = memory_kind(kind, memory) {
        form.instruction.set_op_kind(index, OpKind::Memory);
        set_memory(dice, form, vector);
        return Some(());
    }
    if let Some(register) = register_kind(dice, form, kind) {
        form.instruction.set_op_kind(index, OpKind::Register);
        form.instruction.set_op_register(index, register);
        return Some(());
    }
    set_constant(dice, form, index, kind)
}

fn set_constant(dice: &mut Dice, form: &mut Form, index: u32, kind: Kind) -> Option<()> {
    use Kind as K;
    let value = dice.value();
    match kind {
        K::imm8_const_1 => immediate(form, index, OpKind::Immediate8, 1),
        K::imm8 if form.instruction.op_count() > 1 && is_second_byte(form, index) => {
            // ENTER: a small frame.
            immediate(form, index, OpKind::Immediate8_2nd, value & 0x23)
        }
        K::imm8 => immediate(form, index, OpKind::Immediate8, value),
        K::imm8sex16 => immediate(form, index, OpKind::Immediate8to16, value as i8 as u64),
        K::imm8sex32 => immediate(form, index, OpKind::Immediate8to32, value as i8 as u64),
        K::imm8sex64 => immediate(form, index, OpKind::Immediate8to64, value as i8 as u64),
        K::imm16 => immediate(form, index, OpKind::Immediate16, value),
        K::imm32 => immediate(form, index, OpKind::Immediate32, value),
        K::imm32sex64 => immediate(form, index, OpKind::Immediate32to64, value as i32 as u64),
        K::imm64 => immediate(form, index, OpKind::Immediate64, value),
        K::seg_rSI => form.instruction.set_op_kind(index, OpKind::MemorySegRSI),
        K::seg_rDI => form.instruction.set_op_kind(index, OpKind::MemorySegRDI),
        K::es_rDI => form.instruction.set_op_kind(index, OpKind::MemoryESRDI),
        K::seg_rBX_al => {
            form.instruction.set_op_kind(index, OpKind::Memory);
            form.instruction.set_memory_base(Register::RBX);
            form.instruction.set_memory_index(Register::AL);
        }
        K::mem_offs => {
            form.instruction.set_op_kind(index, OpKind::Memory);
            let at = crate::machine::INNER + dice.below(448);
            form.instruction.set_memory_displacement64(at);
            form.instruction.set_memory_displ_size(8);
        }
        _ => return None,
    }
    Some(())
}

fn is_second_byte(form: &Form, index: u32) -> bool {
    form.instruction.mnemonic() == Mnemonic::Enter && index == 1
}

fn immediate(form: &mut Form, index: u32, kind: OpKind, value: u64) {
    form.instruction.set_op_kind(index, kind);
    match kind {
        OpKind::Immediate8 => form.instruction.set_immediate8(value as u8),
        OpKind::Immediate8_2nd => form.instruction.set_immediate8_2nd(value as u8),
        OpKind::Immediate8to16 => form.instruction.set_immediate8to16(value as i16),
        OpKind::Immediate8to32 => form.instruction.set_immediate8to32(value as i32),
        OpKind::Immediate8to64 => form.instruction.set_immediate8to64(value as i64),
        OpKind::Immediate16 => form.instruction.set_immediate16(value as u16),
        OpKind::Immediate32 => form.instruction.set_immediate32(value as u32),
        OpKind::Immediate32to64 => form.instruction.set_immediate32to64(value as i64),
        _ => form.instruction.set_immediate64(value),
    }
}

/// Adds EVEX's masks, broadcasts and rounding.
fn decorate(dice: &mut Dice, form: &mut Form, memory: bool) {
    let op_code = form.instruction.code().op_code();
    let instruction = &mut form.instruction;
    let masked = op_code.require_op_mask_register()
        || (op_code.can_use_op_mask_register() && dice.below(3) > 0);
    if masked {
        instruction.set_op_mask(Register::K1 + dice.below(7) as u32);
        let to_memory = instruction.op0_kind() == OpKind::Memory;
        if op_code.can_use_zeroing_masking() && !to_memory && dice.below(2) == 0 {
            instruction.set_zeroing_masking(true);
        }
    }
    if memory && op_code.can_broadcast() && dice.below(2) == 0 {
        instruction.set_is_broadcast(true);
    }
    if !memory && op_code.can_use_rounding_control() && dice.below(2) == 0 {
        instruction.set_rounding_control(dice.pick(&[
            RoundingControl::RoundToNearest,
            RoundingControl::RoundDown,
            RoundingControl::RoundUp,
            RoundingControl::RoundTowardZero,
        ]));
    } else if !memory && op_code.can_suppress_all_exceptions() && dice.below(2) == 0 {
        instruction.set_suppress_all_exceptions(true);
    }
}

/// A random encoding of `code`, and its bytes.
pub fn make(dice: &mut Dice, code: Code, memory: bool) -> Option<(Form, Vec<u8>)> {
    for _ in 0..32 {
        let mut instruction = Instruction::default();
        instruction.set_code(code);
        let mut form = Form {
            instruction,
            base: None,
            index: None,
            vector_index: None,
        };
        for (index, &kind) in code.op_code().op_kinds().iter().enumerate() {
            set_operand(dice, &mut form, index as u32, kind, memory)?;
        }
        let in_memory = form
            .instruction
            .op_kinds()
            .any(|kind| kind == OpKind::Memory);
        decorate(dice, &mut form, in_memory);
        let mut encoder = Encoder::new(64);
        if encoder.encode(&form.instruction, CODE_AT).is_ok() {
            return Some((form, encoder.take_buffer()));
        }
    }
    None
}
