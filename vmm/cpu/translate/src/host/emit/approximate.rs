//! RCPSS, RSQRTSS and similar instructions, as defined in [`defined`](crate::defined::reciprocal),
//! in lanes.
//!
//! Code computes the result of ordinary operands; special ones are left to the dispatcher.
//! Instructions of 128 bits use no VEX, so that the upper parts of wider registers are kept, and
//! processors with a penalty for mixing encodings do not mix them.

use std::arch::is_x86_feature_detected;

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, OpKind, Register};

use super::Emitter;
use crate::context::at;
use crate::defined::reciprocal::{self, Approximation};
use crate::host::exit_stub::ExitStubKind;
use crate::host::shared::Counter;

/// The low nibble of JNZ.
const CONDITION_NOT_ZERO: u8 = 5;

/// An operation on vectors: without VEX, and with VEX and 256 bits.
type Operation = (Code, Code);

const MOVE: Operation = (Code::Movdqa_xmm_xmmm128, Code::VEX_Vmovdqa_ymm_ymmm256);
const STORE: Operation = (Code::Movdqa_xmmm128_xmm, Code::VEX_Vmovdqa_ymmm256_ymm);
const AND: Operation = (Code::Pand_xmm_xmmm128, Code::VEX_Vpand_ymm_ymm_ymmm256);
const OR: Operation = (Code::Por_xmm_xmmm128, Code::VEX_Vpor_ymm_ymm_ymmm256);
const XOR: Operation = (Code::Pxor_xmm_xmmm128, Code::VEX_Vpxor_ymm_ymm_ymmm256);
const ADD: Operation = (Code::Paddd_xmm_xmmm128, Code::VEX_Vpaddd_ymm_ymm_ymmm256);
const SUBTRACT: Operation = (Code::Psubd_xmm_xmmm128, Code::VEX_Vpsubd_ymm_ymm_ymmm256);
const GREATER: Operation = (Code::Pmaxud_xmm_xmmm128, Code::VEX_Vpmaxud_ymm_ymm_ymmm256);
const SHUFFLE: Operation = (Code::Pshufb_xmm_xmmm128, Code::VEX_Vpshufb_ymm_ymm_ymmm256);
const SQUARE: Operation = (
    Code::Pmulhrsw_xmm_xmmm128,
    Code::VEX_Vpmulhrsw_ymm_ymm_ymmm256,
);
const PRODUCTS: Operation = (
    Code::Pmaddwd_xmm_xmmm128,
    Code::VEX_Vpmaddwd_ymm_ymm_ymmm256,
);
const TEST: Operation = (Code::Ptest_xmm_xmmm128, Code::VEX_Vptest_ymm_ymmm256);
const BLEND: Operation = (
    Code::Pblendw_xmm_xmmm128_imm8,
    Code::VEX_Vpblendw_ymm_ymm_ymmm256_imm8,
);
const LEFT: Operation = (Code::Pslld_xmm_imm8, Code::VEX_Vpslld_ymm_ymm_imm8);
const RIGHT: Operation = (Code::Psrld_xmm_imm8, Code::VEX_Vpsrld_ymm_ymm_imm8);
const RIGHT_SIGNED: Operation = (Code::Psrad_xmm_imm8, Code::VEX_Vpsrad_ymm_ymm_imm8);

/// A source: the register of this number, or a field of the context.
#[derive(Clone, Copy)]
enum From {
    Register(u8),
    Context(i32),
}

/// The vector registers used while an instruction is emitted.
struct Lanes {
    wide: bool,
    /// The result, and three others.
    scratch: [u8; 4],
    /// True if the first of them is the result's register, so that it need not be saved.
    in_place: bool,
}

impl Emitter {
    /// Emits an instruction that [approximates](reciprocal::which), with a memory operand of `size`
    /// bytes.
    pub(super) fn approximate(
        &mut self,
        instruction: &Instruction,
        approximation: Approximation,
        size: Option<u16>,
        flags_dead: bool,
    ) {
        let mut own = *instruction;
        if let Some(size) = size {
            self.memory(&reciprocal::load_of(instruction), size, false, flags_dead);
            let last = own.op_count() - 1;
            own.set_op_kind(last, OpKind::Register);
            own.set_op_register(last, own.op0_register());
            if last == 2 {
                own.set_op_register(1, own.op0_register());
            }
        }
        if !flags_dead {
            self.keep_flags();
        }
        if self.in_lanes(&own, approximation).is_err() {
            debug_assert!(false, "an operation on vectors has no encoding");
            let hole = self.asm.jump();
            self.leave_from(hole, ExitStubKind::Helper(Box::new(own)), false);
        }
        if !flags_dead {
            self.end_kept_flags();
        }
    }

    /// As above, between registers and with dead flags.
    fn in_lanes(
        &mut self,
        instruction: &Instruction,
        approximation: Approximation,
    ) -> Result<(), IcedError> {
        let last = instruction.op_count() - 1;
        let (target, source) = (instruction.op0_register(), instruction.op_register(last));
        let scalar = reciprocal::is_scalar(instruction.mnemonic());
        let from = source.number() as u8;
        let named = [target, source, instruction.op1_register()];
        let lanes = Lanes::new(target.is_ymm(), named, scalar);
        let curve = at::curve(approximation as usize);
        self.lend_vectors(&lanes)?;
        self.leave_unless_usual(&lanes, from, approximation, instruction)?;
        self.look_up(&lanes, from, approximation, curve)?;
        self.add_parabola(&lanes, from, approximation)?;
        self.add_exponent(&lanes, from, approximation, curve)?;
        let result = xmm_or_ymm(lanes.scratch[0], lanes.wide);
        let finish = match (instruction.code().mnemonic(), instruction.op_count()) {
            (_, 3) => Instruction::with3(
                Code::VEX_Vmovss_xmm_xmm_xmm,
                target,
                instruction.op1_register(),
                result,
            )?,
            _ if scalar => Instruction::with2(Code::Movss_xmm_xmmm32, target, result)?,
            _ if reciprocal::is_vex(instruction) && !lanes.wide => {
                Instruction::with2(Code::VEX_Vmovaps_xmm_xmmm128, target, result)?
            }
            _ if lanes.wide => Instruction::with2(MOVE.1, target, result)?,
            _ => Instruction::with2(MOVE.0, target, result)?,
        };
        let moves = target != result || (reciprocal::is_vex(instruction) && !lanes.wide);
        if moves {
            self.encode(&finish);
        }
        self.give_vectors_back(&lanes)
    }

    /// Leaves for the dispatcher if an operand is special. The registers hold the guest's values
    /// there.
    fn leave_unless_usual(
        &mut self,
        lanes: &Lanes,
        source: u8,
        approximation: Approximation,
        instruction: &Instruction,
    ) -> Result<(), IcedError> {
        let first = lanes.scratch[0];
        let curve = at::curve(approximation as usize);
        self.vectors(lanes, MOVE, first, From::Register(source))?;
        if approximation == Approximation::Reciprocal {
            self.vectors(lanes, AND, first, From::Context(at::UNSIGNED_EXPONENT))?;
        }
        self.vectors(lanes, SUBTRACT, first, From::Context(curve.lowest))?;
        self.vectors(lanes, GREATER, first, From::Context(curve.range))?;
        self.vectors(lanes, XOR, first, From::Context(curve.range))?;
        let tested = if reciprocal::is_scalar(instruction.mnemonic()) {
            From::Context(at::FIRST_LANE)
        } else {
            From::Register(first)
        };
        self.vectors(lanes, TEST, first, tested)?;
        if !lanes.in_place {
            self.reload(lanes, 0)?;
        }
        let hole = self.asm.jump_if(CONDITION_NOT_ZERO);
        self.leave_from(hole, ExitStubKind::Helper(Box::new(*instruction)), false);
        Ok(())
    }

    /// Looks up the coefficients: the first in the first register, at its final position, the others
    /// in words of the second.
    fn look_up(
        &mut self,
        lanes: &Lanes,
        source: u8,
        approximation: Approximation,
        curve: at::CurveAt,
    ) -> Result<(), IcedError> {
        let [first, second, third, fourth] = lanes.scratch;
        let shift = approximation.interval_shift() as u8;
        self.vectors(lanes, MOVE, third, From::Register(source))?;
        self.shift(lanes, RIGHT, third, shift)?;
        self.vectors(lanes, SHUFFLE, third, From::Context(at::REPLICATE))?;
        self.vectors(lanes, AND, third, From::Context(at::INTERVAL))?;
        self.vectors(lanes, OR, third, From::Context(at::SECOND))?;
        for (register, table) in [(first, curve.a), (second, curve.b), (fourth, curve.c)] {
            self.vectors(lanes, MOVE, register, From::Context(table))?;
            self.vectors(lanes, SHUFFLE, register, From::Register(third))?;
        }
        self.vectors(lanes, AND, first, From::Context(at::CONSTANT))?;
        // Odd words from the third coefficient.
        let [to, from] = [second, fourth].map(|number| xmm_or_ymm(number, lanes.wide));
        let blend = if lanes.wide {
            Instruction::with4(BLEND.1, to, to, from, 0xaau32)?
        } else {
            Instruction::with3(BLEND.0, to, from, 0xaau32)?
        };
        self.encode(&blend);
        Ok(())
    }

    /// Adds the terms that depend on the position in the interval.
    fn add_parabola(
        &mut self,
        lanes: &Lanes,
        source: u8,
        approximation: Approximation,
    ) -> Result<(), IcedError> {
        let [first, second, third, fourth] = lanes.scratch;
        let shift = approximation.interval_shift() as u8 - 15;
        self.vectors(lanes, MOVE, third, From::Register(source))?;
        self.shift(lanes, RIGHT, third, shift)?;
        self.vectors(lanes, AND, third, From::Context(at::ARGUMENT))?;
        self.vectors(lanes, MOVE, fourth, From::Register(third))?;
        self.vectors(lanes, SQUARE, fourth, From::Register(fourth))?;
        self.shift(lanes, LEFT, fourth, 16)?;
        self.vectors(lanes, OR, third, From::Register(fourth))?;
        self.vectors(lanes, PRODUCTS, second, From::Register(third))?;
        self.shift(lanes, RIGHT_SIGNED, second, 8)?;
        self.vectors(lanes, ADD, first, From::Register(second))
    }

    /// Adds the exponent, and with it the sign: the subtraction sets it, as it was clear.
    fn add_exponent(
        &mut self,
        lanes: &Lanes,
        source: u8,
        approximation: Approximation,
        curve: at::CurveAt,
    ) -> Result<(), IcedError> {
        let [first, second, ..] = lanes.scratch;
        self.vectors(lanes, ADD, first, From::Context(curve.base))?;
        self.vectors(lanes, MOVE, second, From::Register(source))?;
        match approximation {
            Approximation::Reciprocal => {
                self.vectors(lanes, AND, second, From::Context(at::EXPONENT))?;
            }
            Approximation::ReciprocalRoot => {
                self.shift(lanes, RIGHT, second, 24)?;
                self.shift(lanes, LEFT, second, 23)?;
            }
        }
        self.vectors(lanes, SUBTRACT, first, From::Register(second))
    }

    fn lend_vectors(&mut self, lanes: &Lanes) -> Result<(), IcedError> {
        for place in lanes.lent() {
            let number = lanes.scratch[place];
            let slot = context(at::lent_vector(place));
            let store = match self.widest(lanes) {
                (true, register) => Instruction::with2(
                    Code::EVEX_Vmovdqa64_zmmm512_k1z_zmm,
                    slot,
                    register + u32::from(number),
                )?,
                (false, register) => {
                    Instruction::with2(lanes.code(STORE), slot, register + u32::from(number))?
                }
            };
            self.encode(&store);
        }
        Ok(())
    }

    fn give_vectors_back(&mut self, lanes: &Lanes) -> Result<(), IcedError> {
        for place in lanes.lent() {
            self.reload(lanes, place)?;
        }
        Ok(())
    }

    fn reload(&mut self, lanes: &Lanes, place: usize) -> Result<(), IcedError> {
        let number = u32::from(lanes.scratch[place]);
        let slot = context(at::lent_vector(place));
        let load = match self.widest(lanes) {
            (true, register) => Instruction::with2(
                Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512,
                register + number,
                slot,
            )?,
            (false, register) => Instruction::with2(lanes.code(MOVE), register + number, slot)?,
        };
        self.encode(&load);
        Ok(())
    }

    /// True if a lent register is 512 bits wide, with the first register of that kind: operations
    /// with VEX clear the bits above them.
    fn widest(&self, lanes: &Lanes) -> (bool, Register) {
        // A host with AVX-512 counts in memory only if the guest has all of its registers.
        let all = self.shared.counter == Counter::Memory && is_x86_feature_detected!("avx512f");
        match (lanes.wide, all) {
            (true, true) => (true, Register::ZMM0),
            (true, false) => (false, Register::YMM0),
            (false, _) => (false, Register::XMM0),
        }
    }

    /// `operation to, from`, or `operation to, to, from`.
    fn vectors(
        &mut self,
        lanes: &Lanes,
        operation: Operation,
        to: u8,
        from: From,
    ) -> Result<(), IcedError> {
        let (code, to) = (lanes.code(operation), xmm_or_ymm(to, lanes.wide));
        let names_one = code.op_code().op_count() == 2;
        let instruction = match from {
            From::Register(from) if names_one => {
                Instruction::with2(code, to, xmm_or_ymm(from, lanes.wide))?
            }
            From::Register(from) => Instruction::with3(code, to, to, xmm_or_ymm(from, lanes.wide))?,
            From::Context(from) if names_one => Instruction::with2(code, to, context(from))?,
            From::Context(from) => Instruction::with3(code, to, to, context(from))?,
        };
        self.encode(&instruction);
        Ok(())
    }

    fn shift(
        &mut self,
        lanes: &Lanes,
        operation: Operation,
        register: u8,
        by: u8,
    ) -> Result<(), IcedError> {
        let (code, to) = (lanes.code(operation), xmm_or_ymm(register, lanes.wide));
        let instruction = if lanes.wide {
            Instruction::with3(code, to, to, u32::from(by))?
        } else {
            Instruction::with2(code, to, u32::from(by))?
        };
        self.encode(&instruction);
        Ok(())
    }
}

impl Lanes {
    /// For an instruction with the registers in `named`: target, source, and another one.
    fn new(wide: bool, named: [Register; 3], scalar: bool) -> Self {
        let named = named.map(|register| register.number() as u8);
        let in_place = named[0] != named[1] && !scalar;
        let mut scratch = [named[0]; 4];
        let free = (0..16).filter(|number| !named.contains(number));
        let lent = &mut scratch[usize::from(in_place)..];
        for (place, number) in lent.iter_mut().zip(free) {
            *place = number;
        }
        Self {
            wide,
            scratch,
            in_place,
        }
    }

    /// Indices in `scratch` of the registers borrowed from the guest.
    fn lent(&self) -> std::ops::Range<usize> {
        usize::from(self.in_place)..self.scratch.len()
    }

    fn code(&self, (narrow, wide): Operation) -> Code {
        if self.wide { wide } else { narrow }
    }
}

fn xmm_or_ymm(number: u8, wide: bool) -> Register {
    let first = if wide { Register::YMM0 } else { Register::XMM0 };
    first + u32::from(number)
}

/// An operand at this offset of the context.
fn context(place: i32) -> MemoryOperand {
    MemoryOperand::with_base_displ_size_bcst_seg(
        Register::None,
        i64::from(place),
        8,
        false,
        Register::GS,
    )
}
