//! Every instruction form that level x86-64-v2 has, against the host's processor.
//!
//! For each of iced's codes a number of encodings is made (registers, high bytes,
//! memory operands of all shapes), and each is run on random registers, flags,
//! vectors and memory, natively and in the engine. Everything must agree: general
//! registers, flags, memory, x87, XMM and MXCSR.
#![allow(missing_docs, unsafe_code, clippy::print_stderr)]

mod bare;
mod native;

use bare::{CODE, Guest};
use belljar_cpu::{Exit, Registers, Vcpu};
use belljar_sim::{Random, Seed};
use iced_x86::{
    Code, CpuidFeature, Encoder, FlowControl, Instruction, Mnemonic, OpCodeOperandKind as Kind,
    OpKind, Register,
};
use native::{ARENA, FX_AREA, Native, State};

/// Encodings of each form, and inputs for each encoding.
const ENCODINGS: usize = 16;
const INPUTS: usize = 128;
/// Random data stands here, on both sides of a page boundary.
const WINDOW: u64 = ARENA + 0x2000 - WINDOW_BYTES as u64 / 2;
const WINDOW_BYTES: usize = 256;
const ARITHMETIC: u64 = 0x8d5;

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
fn is_comparable(code: Code) -> bool {
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

struct Dice(Random);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A value that is often at an edge.
    fn value(&mut self) -> u64 {
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
struct Form {
    instruction: Instruction,
    /// Registers that make up the address: base, and index with its scale.
    base: Option<usize>,
    index: Option<usize>,
    divides: bool,
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
fn make(dice: &mut Dice, code: Code, memory: bool) -> Option<(Form, Vec<u8>)> {
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

/// Random state under which the form neither faults nor leaves the arena.
fn inputs(dice: &mut Dice, form: &Form) -> (State, Vec<u8>) {
    let mut state = State::default();
    state.gpr = std::array::from_fn(|_| dice.value());
    state.flags = dice.0.next_u64() & ARITHMETIC | 2;
    for lane in &mut state.xmm {
        *lane = u128::from(float_bits(dice)) << 64 | u128::from(float_bits(dice));
    }
    if form.divides {
        // Quotients must fit: a small dividend, an odd divisor that is no minus one.
        state.gpr[0] = dice.below(0x80);
        state.gpr[2] = 0;
        for number in (0..16).filter(|&number| number != 0 && number != 2) {
            state.gpr[number] =
                (dice.below(0x3f) * 0x0101_0101_0101_0100) | (dice.below(0x3f) << 1) | 1;
        }
    }
    let size = form.instruction.memory_size().size().max(1) as u64;
    let align = if size >= 16 { 16 } else { 1 };
    let spread = WINDOW_BYTES as u64 - size;
    let target = WINDOW + (dice.below(spread / align + 1)) * align;
    for string in [6, 7] {
        if form
            .instruction
            .op_kinds()
            .any(|kind| matches!(kind, OpKind::MemorySegRSI | OpKind::MemoryESRDI))
        {
            state.gpr[string] = WINDOW + dice.below(spread + 1);
        }
    }
    if let Some(base) = form.base {
        let scale = u64::from(form.instruction.memory_index_scale());
        let index = form.index.map_or(0, |index| {
            state.gpr[index] = dice.below(512).wrapping_sub(256);
            state.gpr[index].wrapping_mul(scale)
        });
        let displacement = form.instruction.memory_displacement64();
        state.gpr[base] = target.wrapping_sub(index).wrapping_sub(displacement);
    }
    bound_bit_offset(dice, form, &mut state);
    if uses_stack(form) {
        state.gpr[4] = WINDOW + WINDOW_BYTES as u64 / 2 + dice.below(16);
    }
    let mut memory: Vec<u8> = (0..WINDOW_BYTES).map(|_| dice.0.next_u64() as u8).collect();
    if form.divides {
        memory.iter_mut().for_each(|byte| *byte = *byte & 0x3f | 1);
    }
    (state, memory)
}

/// BT and kin with a register reach as far as the register says: keep it in the window.
fn bound_bit_offset(dice: &mut Dice, form: &Form, state: &mut State) {
    let bits = matches!(
        form.instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    if bits && form.base.is_some() && form.instruction.op1_kind() == OpKind::Register {
        let number = form.instruction.op1_register().number();
        if Some(number) != form.base && Some(number) != form.index {
            state.gpr[number] = dice.below(2048).wrapping_sub(1024);
        }
    }
}

/// Doubles and pairs of floats, edges among them.
fn float_bits(dice: &mut Dice) -> u64 {
    match dice.below(5) {
        0 => dice.pick(&[
            0,
            1 << 63,
            0x7ff0_0000_0000_0000,
            0xfff0_0000_0000_0000,
            0x7ff8_0000_0000_0000,
            1,
            0x3ff0_0000_0000_0000,
        ]),
        1 => (dice.below(2000) as f64 - 1000.0).to_bits(),
        2 => u64::from((dice.below(2000) as f32 - 1000.0).to_bits()) * 0x1_0000_0001,
        _ => dice.0.next_u64(),
    }
}

fn uses_stack(form: &Form) -> bool {
    matches!(form.instruction.mnemonic(), Mnemonic::Push | Mnemonic::Pop)
}

/// Bit offsets whose register is part of the address lead anywhere; such
/// encodings are passed over, and approximations that each vendor defines.
fn is_wild(form: &Form) -> bool {
    if uses_stack(form) && form.base == Some(4) {
        return true;
    }
    let bits = matches!(
        form.instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    let number = (form.instruction.op_count() > 1
        && form.instruction.op1_kind() == OpKind::Register)
        .then(|| form.instruction.op1_register().number());
    bits && form.base.is_some() && number.is_some() && (number == form.base || number == form.index)
}

/// Flags that the architecture leaves undefined and a helper defines as zero or
/// as they were; everything else runs natively and must agree with the host.
fn undefined_flags(instruction: &Instruction) -> u64 {
    let bits = matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    if bits && instruction.op0_kind() == OpKind::Memory {
        ARITHMETIC & !1 & !(1 << 6)
    } else {
        0
    }
}

struct Bench {
    guest: Guest,
    native: Native,
    dice: Dice,
    cases: u64,
}

impl Bench {
    fn check(&mut self, form: &Form, bytes: &[u8]) {
        let code = native::wrap(bytes);
        // OUT ends the run; behind it a jump, before which no flag is dead.
        self.guest
            .write(CODE, &[&code[..], &[0xe6, 0x80, 0xeb, 0xfe]].concat());
        self.native.load(&code);
        for _ in 0..INPUTS {
            let (state, memory) = inputs(&mut self.dice, form);
            self.compare(form, bytes, &state, &memory);
            self.cases += 1;
        }
    }

    fn compare(&mut self, form: &Form, bytes: &[u8], state: &State, memory: &[u8]) {
        let (expected, expected_memory, expected_fx) = self.native.run(state, WINDOW, memory);
        self.guest.write(arena_physical(WINDOW), memory);
        let mut registers = Registers {
            gpr: state.gpr,
            rip: CODE,
            rflags: state.flags,
        };
        self.guest.vcpu.set_registers(&registers);
        self.guest.vcpu.set_xmm(state.xmm);
        let exit = self.guest.run(1000);
        registers = self.guest.vcpu.registers();
        let context = || format!("{:?} {bytes:02x?}\n{state:x?}", form.instruction);
        assert!(
            matches!(exit, Exit::PioWrite { port: 0x80, .. }),
            "{exit:?}: {}",
            context()
        );
        let mask = !undefined_flags(&form.instruction);
        assert_eq!(
            registers.gpr,
            expected.gpr,
            "general registers: {}",
            context()
        );
        let flags = |flags: u64| flags & ARITHMETIC & mask;
        assert_eq!(
            flags(registers.rflags),
            flags(expected.flags),
            "flags: {}",
            context()
        );
        let found = self.guest.read(arena_physical(WINDOW), WINDOW_BYTES);
        assert_eq!(found, expected_memory, "memory: {}", context());
        let fx = native::clean_fx(&self.guest.read(arena_physical(FX_AREA), 512));
        assert_eq!(fx, expected_fx, "x87 and vectors: {}", context());
    }
}

fn arena_physical(linear: u64) -> u64 {
    linear - ARENA + bare::DATA
}

fn has_memory_form(code: Code) -> bool {
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

#[test]
fn every_form_agrees_with_the_host() {
    let guest = Guest::new(&[0xf4]);
    guest.map(ARENA, bare::DATA, 16);
    let seed = std::env::var("BELLJAR_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    let mut bench = Bench {
        guest,
        native: Native::new(),
        dice: Dice(Random::new(Seed(seed), "forms", 0)),
        cases: 0,
    };
    let mut forms = 0;
    let mut unmade = Vec::new();
    for code in Code::values().filter(|&code| is_comparable(code)) {
        let shapes: &[bool] = if has_memory_form(code) {
            &[false, true]
        } else {
            &[false]
        };
        for &memory in shapes {
            let mut made = 0;
            for _ in 0..ENCODINGS {
                let Some((form, bytes)) = make(&mut bench.dice, code, memory) else {
                    break;
                };
                made += 1;
                if !is_wild(&form) {
                    bench.check(&form, &bytes);
                }
            }
            if made == 0 {
                unmade.push(code);
            } else {
                forms += 1;
            }
        }
    }
    eprintln!("{forms} forms, {} cases; not made: {unmade:?}", bench.cases);
    assert!(forms > 900, "only {forms} forms were made");
}
