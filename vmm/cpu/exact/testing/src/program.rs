//! Random programs: instructions of all forms, with forward branches and loops, whose accesses stay
//! in the arena.

use belljar_cpu::InstructionSet;
use iced_x86::{Code, Encoder, EncodingKind, Instruction, Mnemonic as M, OpKind, Register};

use crate::encoding::{Dice, Form, has_memory_form, is_comparable, make};
use crate::machine::inputs::{is_bit_string, is_wild, target, uses_stack};
use crate::machine::{HALF, INNER};

/// A self-contained piece of a program: an instruction with the setup of its registers, or a branch
/// over some of the following pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Code(Vec<u8>),
    /// A conditional jump over `skip` pieces.
    Branch {
        condition: u8,
        skip: usize,
    },
    /// The same, through a register.
    Indirect {
        skip: usize,
    },
    /// A jump back over `back` pieces, so that they run `rounds` times.
    Loop {
        back: usize,
        rounds: u8,
    },
}

const BRANCH_BYTES: usize = 6;
const INDIRECT_BYTES: usize = 9;
/// `dec dword [counter]; jg back`.
const LOOP_BYTES: usize = 12;
/// `mov dword [counter], rounds`, before everything else: a jump into a loop's middle finds its
/// counter set, or used up.
const COUNTER_BYTES: usize = 10;
/// Offset of the counters: the page after the code's, which is not compared.
const COUNTERS: usize = 0x1800;

impl Piece {
    fn bytes(&self) -> usize {
        match self {
            Self::Code(bytes) => bytes.len(),
            Self::Branch { .. } => BRANCH_BYTES,
            Self::Indirect { .. } => INDIRECT_BYTES,
            Self::Loop { .. } => LOOP_BYTES,
        }
    }
}

/// The bytes of a program.
pub fn assemble(pieces: &[Piece]) -> Vec<u8> {
    let mut code = counters(pieces);
    let mut starts = vec![code.len()];
    for piece in pieces {
        starts.push(starts[starts.len() - 1] + piece.bytes());
    }
    let mut loops = 0;
    for (number, piece) in pieces.iter().enumerate() {
        let end = starts[number + 1] as i32;
        let to = |skip: &usize| starts[(number + 1 + skip).min(pieces.len())] as i32 - end;
        match piece {
            Piece::Code(bytes) => code.extend_from_slice(bytes),
            Piece::Branch { condition, skip } => {
                code.extend_from_slice(&[0x0f, 0x80 | condition]);
                code.extend_from_slice(&to(skip).to_le_bytes());
            }
            Piece::Indirect { skip } => {
                // lea rax, [rip + away]; jmp rax
                code.extend_from_slice(&[0x48, 0x8d, 0x05]);
                code.extend_from_slice(&(to(skip) + 2).to_le_bytes());
                code.extend_from_slice(&[0xff, 0xe0]);
            }
            Piece::Loop { back, .. } => {
                let counter = (COUNTERS + loops * 4) as i32 - (end - 6);
                let away = starts[number.saturating_sub(*back)] as i32 - end;
                code.extend_from_slice(&[0xff, 0x0d]);
                code.extend_from_slice(&counter.to_le_bytes());
                code.extend_from_slice(&[0x0f, 0x8f]);
                code.extend_from_slice(&away.to_le_bytes());
                loops += 1;
            }
        }
    }
    code
}

/// Sets all loops' counters.
fn counters(pieces: &[Piece]) -> Vec<u8> {
    let rounds = pieces.iter().filter_map(|piece| match piece {
        Piece::Loop { rounds, .. } => Some(*rounds),
        _ => None,
    });
    let set = rounds.enumerate().flat_map(|(number, rounds)| {
        let away = (COUNTERS + number * 4 - (number + 1) * COUNTER_BYTES) as u32;
        let mut code = vec![0xc7, 0x05];
        code.extend_from_slice(&away.to_le_bytes());
        code.extend_from_slice(&u32::from(rounds).to_le_bytes());
        code
    });
    set.collect()
}

/// Makes programs of the forms that a processor with a given instruction set has.
pub struct Generator {
    codes: Vec<Code>,
}

impl Generator {
    pub fn new(set: &InstructionSet) -> Self {
        let codes = Code::values()
            .filter(|&code| is_comparable(code, set) && is_usual(code))
            .collect();
        Self { codes }
    }

    /// From 5 to 60 pieces.
    pub fn program(&self, dice: &mut Dice) -> Vec<Piece> {
        let length = 5 + dice.below(56) as usize;
        // Programs of arbitrary forms rarely repeat a kind of form: choose nearby forms.
        let near = dice.below(self.codes.len() as u64);
        let spread = dice.pick(&[20, 200, self.codes.len() as u64]);
        (0..length)
            .map(|_| match dice.below(16) {
                0 => Piece::Branch {
                    condition: dice.below(16) as u8,
                    skip: dice.below(4) as usize,
                },
                1 => match dice.below(4) {
                    0 => Piece::Indirect {
                        skip: dice.below(3) as usize,
                    },
                    1 => Piece::Loop {
                        back: 1 + dice.below(6) as usize,
                        rounds: dice.pick(&[2, 3, 5, 40]),
                    },
                    _ => self.instruction(dice, near, spread),
                },
                2 | 3 => self.instruction(dice, 0, self.codes.len() as u64),
                _ => self.instruction(dice, near, spread),
            })
            .collect()
    }

    fn instruction(&self, dice: &mut Dice, near: u64, spread: u64) -> Piece {
        let all = self.codes.len() as u64;
        for tries in 0.. {
            // Some neighbourhoods have no suitable form.
            let spread = if tries < 50 { spread } else { all };
            let place = (near + dice.below(spread)) % all;
            let code = self.codes[place as usize];
            let memory = has_memory_form(code) && dice.below(2) == 0;
            let Some((form, bytes)) = make(dice, code, memory) else {
                continue;
            };
            if is_wild(&form) {
                continue;
            }
            if let Some(code) = with_setup(dice, &form, bytes) {
                return Piece::Code(code);
            }
        }
        unreachable!("the forms run out only when all are tried")
    }
}

/// Excludes forms that end every program at once, and ones that save or load x87 state with
/// pointers or from random bytes.
fn is_usual(code: Code) -> bool {
    let state = matches!(
        code.mnemonic(),
        M::Fnstenv | M::Fnsave | M::Fldenv | M::Frstor | M::Fldcw | M::Ldmxcsr | M::Vldmxcsr
    ) || matches!(
        code.mnemonic(),
        M::Fxsave | M::Fxsave64 | M::Fxrstor | M::Fxrstor64
    );
    let ends = matches!(code.mnemonic(), M::Ud0 | M::Ud1 | M::Ud2)
        || code.op_code().is_privileged()
        || code.op_code().is_input_output();
    !state && !ends
}

/// `mov register, value`.
fn set_register(code: &mut Vec<u8>, number: usize, value: u64) {
    code.extend_from_slice(&[0x48 | (number >> 3) as u8, 0xb8 | number as u8 & 7]);
    code.extend_from_slice(&value.to_le_bytes());
}

/// The instruction, after code that sets its addresses to the arena; `None` if a register would
/// need two values.
fn with_setup(dice: &mut Dice, form: &Form, bytes: Vec<u8>) -> Option<Vec<u8>> {
    let mut code = Vec::new();
    let instruction = &form.instruction;
    if form.vector_index.is_some() {
        return gathering(dice, form, &bytes);
    }
    let size = instruction.memory_size().size().max(1) as u64;
    // Usually where it does not fault, so that a program gets far.
    let mut aim = || match dice.below(12) {
        0 => target(dice, size),
        1 => INNER + HALF - dice.below(size.min(HALF) + 1),
        _ => INNER + dice.below((2 * HALF - size) / 64) * 64 + dice.pick(&[0, 0, 0, 8, 61, 63]),
    };
    for (number, kind) in [
        (6, OpKind::MemorySegRSI),
        (7, OpKind::MemoryESRDI),
        (7, OpKind::MemorySegRDI),
    ] {
        if instruction.op_kinds().any(|known| known == kind) {
            let mut at = aim();
            if matches!(
                instruction.mnemonic(),
                M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu
            ) {
                // The bytes that are checked are unspecified: none may fault.
                at = INNER + at % HALF;
            }
            set_register(&mut code, number, at);
        }
    }
    if let Some(base) = form.base {
        let index = form.index.map_or(0, |index| {
            let value = aim() % 512;
            set_register(&mut code, index, value);
            value.wrapping_mul(u64::from(instruction.memory_index_scale()))
        });
        let at = aim()
            .wrapping_sub(index)
            .wrapping_sub(instruction.memory_displacement64());
        set_register(&mut code, base, at);
    }
    let place = INNER + HALF + aim() % 64;
    if is_bit_string(form) {
        set_register(&mut code, instruction.op1_register().number(), aim() % 256);
    }
    if uses_stack(form) {
        set_register(&mut code, 4, place);
        if matches!(instruction.mnemonic(), M::Enter | M::Leave) {
            set_register(&mut code, 5, place + 16);
        }
    }
    if instruction.mnemonic() == M::Xlatb {
        set_register(&mut code, 3, INNER);
    }
    if form.divides() && !prepare_division(dice, form, &mut code) {
        return None;
    }
    if instruction.is_string_instruction() && dice.below(2) == 0 {
        set_register(&mut code, 1, dice.below(9));
        code.push(dice.pick(&[0xf2, 0xf3]));
    }
    code.extend(bytes);
    if is_bit_string(form) {
        // cmp eax, ebx: after a bit string, some flags are undefined.
        code.extend_from_slice(&[0x39, 0xd8]);
    }
    Some(code)
}

/// A gather or scatter whose lanes all lie in the arena: the set of completed lanes at a fault is
/// unspecified.
fn gathering(dice: &mut Dice, form: &Form, bytes: &[u8]) -> Option<Vec<u8>> {
    let instruction = &form.instruction;
    let index = instruction.memory_index();
    let base = form.base?;
    let evex = instruction.encoding() == EncodingKind::EVEX;
    let narrow = form.vector_index.is_some_and(|(_, bytes)| bytes == 4);
    // Indices from 0 to 15.
    let (shift, by) = match (evex, narrow) {
        (true, true) => (Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, 28),
        (true, false) => (Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8, 60),
        (false, true) => (Code::VEX_Vpsrld_ymm_ymm_imm8, 28),
        (false, false) => (Code::VEX_Vpsrlq_ymm_ymm_imm8, 60),
    };
    let first = if evex { Register::ZMM0 } else { Register::YMM0 };
    let whole = first + index.number() as u32;
    let shift = Instruction::with3(shift, whole, whole, by).ok()?;
    let mut encoder = Encoder::new(64);
    encoder.encode(&shift, 0).ok()?;
    let mut code = encoder.take_buffer();
    let at = (INNER + dice.below(2 * HALF - 200)).wrapping_sub(instruction.memory_displacement64());
    set_register(&mut code, base, at);
    code.extend_from_slice(bytes);
    Some(code)
}

/// Usually makes the quotient fit: a small dividend and a nonzero divisor.
fn prepare_division(dice: &mut Dice, form: &Form, code: &mut Vec<u8>) -> bool {
    if dice.below(16) == 0 {
        return true;
    }
    if form.has_address() {
        return false;
    }
    let divisor = form.instruction.op0_register().full_register().number();
    set_register(code, divisor, dice.below(60) * 0x0101_0102 + 0x0101);
    set_register(code, 0, dice.below(64));
    set_register(code, 2, 0);
    divisor != 0 && divisor != 2
}
