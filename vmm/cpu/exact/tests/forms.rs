//! Every instruction form that level x86-64-v2 has, against the host's processor.
//!
//! For each of iced's codes a number of encodings is made (registers, high bytes,
//! memory operands of all shapes), and each is run on random registers, flags,
//! vectors and memory, natively and in the engine. Everything must agree: general
//! registers, flags, memory, x87, XMM and MXCSR.
#![allow(missing_docs, unsafe_code, clippy::print_stderr)]

mod bare;
mod encoding;
mod native;

use bare::{CODE, Guest};
use belljar_cpu::{Exit, Registers, Vcpu};
use belljar_sim::{Random, Seed};
use encoding::{Dice, Form, has_memory_form, is_comparable, make};
use iced_x86::{Code, Instruction, Mnemonic, OpKind};
use native::{ARENA, FX_AREA, Native, State};

/// Encodings of each form, and inputs for each encoding.
const ENCODINGS: usize = 16;
const INPUTS: usize = 128;
/// Random data stands here, on both sides of a page boundary.
const WINDOW: u64 = ARENA + 0x2000 - WINDOW_BYTES as u64 / 2;
const WINDOW_BYTES: usize = 256;
const ARITHMETIC: u64 = 0x8d5;

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
        let mut vectors = self.guest.vcpu.vectors();
        for (vector, xmm) in vectors.vectors.iter_mut().zip(state.xmm) {
            vector[..16].copy_from_slice(&xmm.to_le_bytes());
        }
        self.guest.vcpu.set_vectors(&vectors);
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
