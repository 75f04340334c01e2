//! The x87's functions: FSIN, FCOS, FSINCOS, FPTAN, FPATAN, F2XM1, FYL2X, FYL2XP1 (Intel SDM,
//! volume 2). Processors differ in the last bits of their results; here they are the rounded
//! results of [`functions`](crate::instructions::defined::functions).

use belljar_translate::architecture::vector;
use iced_x86::{Instruction, Mnemonic as M};

use crate::instructions::defined::extended::{
    Control, Extended, NumberClass, Rounded, round, status,
};
use crate::instructions::defined::functions;
use crate::instructions::defined::wide::Wide;
use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::x87::{FxImage, has_pending, load_x87, save_x87};

/// The registers, by their positions on the stack.
struct Stack {
    image: FxImage,
}

/// An instruction's effect on the stack.
enum StackEffect {
    /// None, because of an unmasked exception of its operands: only the status word changes.
    Nothing,
    /// The argument is too large: sets C2.
    OutOfRange,
    /// Replaces the top.
    Top(Extended),
    /// Replaces the top, then pushes.
    Push(Extended, Extended),
    /// Replaces the register below the top, and pops.
    Pop(Extended),
}

impl Stack {
    fn top(&self) -> u16 {
        self.status() >> 11 & 7
    }

    fn status(&self) -> u16 {
        u16::from_le_bytes([self.image.0[2], self.image.0[3]])
    }

    fn set_status(&mut self, status: u16) {
        self.image.0[2..4].copy_from_slice(&status.to_le_bytes());
    }

    fn control(&self) -> Control {
        Control(u16::from_le_bytes([self.image.0[0], self.image.0[1]]))
    }

    /// The tag bit of the physical register at `place`.
    fn bit(&self, place: u16) -> u8 {
        1 << ((self.top() + place) & 7)
    }

    fn is_empty(&self, place: u16) -> bool {
        self.image.0[4] & self.bit(place) == 0
    }

    fn get(&self, place: u16) -> Extended {
        let start = 32 + 16 * usize::from(place);
        let bytes = &self.image.0[start..start + 10];
        Extended::from_bytes(std::array::from_fn(|at| bytes[at]))
    }

    fn set(&mut self, place: u16, number: Extended) {
        let start = 32 + 16 * usize::from(place);
        self.image.0[start..start + 10].copy_from_slice(&number.to_bytes());
        self.image.0[4] |= self.bit(place);
    }

    /// Moves the top by `by`, and rotates the registers in the image accordingly.
    fn turn(&mut self, by: u16) {
        let top = (self.top() + by) & 7;
        self.image.0[32..160].rotate_left(16 * usize::from(by));
        let status = self.status() & !(7 << 11) | top << 11;
        self.set_status(status);
    }

    fn pop(&mut self) {
        let bit = self.bit(0);
        self.image.0[4] &= !bit;
        self.turn(1);
    }

    fn push(&mut self, number: Extended) {
        self.turn(7);
        self.set(0, number);
    }
}

/// A computation on the stack, and its exceptions.
struct Computation {
    control: Control,
    raised: u16,
}

impl Computation {
    /// Rounds a result, and records its exceptions and C1.
    fn rounded(&mut self, value: Wide, inexact: bool) -> Extended {
        let Rounded { number, status } = round(value, inexact, self.control);
        self.raised = self.raised & !status::C1 | status;
        number
    }

    /// The result of an invalid operation, if that is masked.
    fn invalid(&mut self) -> Option<Extended> {
        self.raised |= status::INVALID;
        self.control
            .masks(status::INVALID)
            .then_some(Extended::INDEFINITE)
    }

    /// Checks the operands for invalid encodings and NaNs: `Err` with the result, or with `None`
    /// for an unmasked exception, if there are any.
    fn check(&mut self, operands: &[Extended]) -> Result<(), Option<Extended>> {
        let kinds: Vec<NumberClass> = operands.iter().map(|operand| operand.kind()).collect();
        if kinds.contains(&NumberClass::Unsupported) {
            return Err(self.invalid());
        }
        let nans = operands.iter().filter(|operand| {
            matches!(
                operand.kind(),
                NumberClass::QuietNan | NumberClass::SignalingNan
            )
        });
        let signals = kinds.contains(&NumberClass::SignalingNan);
        if signals && self.invalid().is_none() {
            return Err(None);
        }
        // The larger one, and of equal ones the positive one. A quiet one precedes a signaling one.
        let quiet_first = |operand: &&Extended| {
            let is_quiet = operand.kind() == NumberClass::QuietNan;
            (is_quiet && signals, operand.mantissa, !operand.negative)
        };
        if let Some(nan) = nans.max_by_key(quiet_first) {
            return Err(Some(nan.quieted()));
        }
        Ok(())
    }

    /// Records denormal operands: `None` if that is an unmasked exception.
    fn note_denormals(&mut self, operands: &[Extended]) -> Option<()> {
        let any = operands
            .iter()
            .any(|operand| operand.kind() == NumberClass::Denormal);
        if any {
            self.raised |= status::DENORMAL;
        }
        self.control.masks(self.raised).then_some(())
    }
}

impl ExactVcpu {
    /// Executes one of the functions.
    pub(crate) fn transcendental(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let mut image = FxImage::reset();
        save_x87(&mut image);
        if has_pending(&image) {
            return Err(Fault::plain(vector::X87).into());
        }
        let mut stack = Stack { image };
        let control = stack.control();
        let (outcome, raised) = outcome(instruction.mnemonic(), &stack);
        // Keeps the condition codes, except C1 and, for functions with a range, C2.
        let mut status = stack.status() & !status::C1 | raised;
        if has_range(instruction.mnemonic()) {
            status &= !status::C2;
        }
        if matches!(outcome, StackEffect::OutOfRange) {
            status |= status::C2;
        }
        if !control.masks(status) {
            status |= status::SUMMARY | status::BUSY;
        }
        stack.set_status(status);
        match outcome {
            StackEffect::Nothing | StackEffect::OutOfRange => {}
            StackEffect::Top(number) => stack.set(0, number),
            StackEffect::Push(below, number) => {
                stack.set(0, below);
                stack.push(number);
            }
            StackEffect::Pop(number) => {
                stack.set(1, number);
                stack.pop();
            }
        }
        load_x87(&stack.image);
        Ok(Done::Next)
    }
}

fn has_range(mnemonic: M) -> bool {
    matches!(mnemonic, M::Fsin | M::Fcos | M::Fsincos | M::Fptan)
}

fn takes_two(mnemonic: M) -> bool {
    matches!(mnemonic, M::Fpatan | M::Fyl2x | M::Fyl2xp1)
}

fn pushes(mnemonic: M) -> bool {
    matches!(mnemonic, M::Fsincos | M::Fptan)
}

/// The instruction's effect on the stack, and its exceptions.
fn outcome(mnemonic: M, stack: &Stack) -> (StackEffect, u16) {
    let mut computation = Computation {
        control: stack.control(),
        raised: 0,
    };
    let outcome = match broken_stack(mnemonic, stack) {
        Some(c1) => {
            computation.raised = status::STACK | c1;
            computation.invalid().map(|nan| spread(mnemonic, nan))
        }
        None if takes_two(mnemonic) => {
            two(mnemonic, &mut computation, stack.get(1), stack.get(0)).map(StackEffect::Pop)
        }
        None => one(mnemonic, &mut computation, stack.get(0)),
    };
    (outcome.unwrap_or(StackEffect::Nothing), computation.raised)
}

/// C1 if an operand is missing or the stack has no room; `None` if neither is the case.
fn broken_stack(mnemonic: M, stack: &Stack) -> Option<u16> {
    if stack.is_empty(0) || takes_two(mnemonic) && stack.is_empty(1) {
        return Some(0);
    }
    (pushes(mnemonic) && !stack.is_empty(7)).then_some(status::C1)
}

/// Puts a NaN into all results.
fn spread(mnemonic: M, nan: Extended) -> StackEffect {
    match mnemonic {
        _ if takes_two(mnemonic) => StackEffect::Pop(nan),
        _ if pushes(mnemonic) => StackEffect::Push(nan, nan),
        _ => StackEffect::Top(nan),
    }
}

/// Functions of one number. `None` if an unmasked exception prevents any change.
fn one(mnemonic: M, computation: &mut Computation, x: Extended) -> Option<StackEffect> {
    if let Err(result) = computation.check(&[x]) {
        return result.map(|nan| spread(mnemonic, nan));
    }
    match x.kind() {
        NumberClass::Infinity if mnemonic != M::F2xm1 => {
            return computation.invalid().map(|nan| spread(mnemonic, nan));
        }
        // 2^x - 1 at both infinities.
        NumberClass::Infinity if x.negative => {
            return Some(StackEffect::Top(Extended {
                negative: true,
                ..Extended::ONE
            }));
        }
        NumberClass::Infinity => return Some(StackEffect::Top(x)),
        _ => {}
    }
    computation.note_denormals(&[x])?;
    if mnemonic == M::F2xm1 {
        return Some(StackEffect::Top(power_less_one(computation, x)));
    }
    if x.kind() == NumberClass::Zero {
        return Some(match mnemonic {
            M::Fsin => StackEffect::Top(x),
            M::Fcos => StackEffect::Top(Extended::ONE),
            _ => StackEffect::Push(x, Extended::ONE),
        });
    }
    if mnemonic == M::Fptan {
        let Some(tangent) = functions::tangent(x.value()) else {
            return Some(StackEffect::OutOfRange);
        };
        let tangent = computation.rounded(tangent, true);
        return Some(StackEffect::Push(tangent, Extended::ONE));
    }
    let Some((sine, cosine)) = functions::sine_cosine(x.value()) else {
        return Some(StackEffect::OutOfRange);
    };
    Some(match mnemonic {
        M::Fsin => StackEffect::Top(computation.rounded(sine, true)),
        M::Fcos => StackEffect::Top(computation.rounded(cosine, true)),
        _ => {
            let sine = computation.rounded(sine, true);
            StackEffect::Push(sine, computation.rounded(cosine, true))
        }
    })
}

/// F2XM1. Outside its range, from -1 to 1, the result is undefined: the operand stays unchanged.
fn power_less_one(computation: &mut Computation, x: Extended) -> Extended {
    let value = x.value();
    match value.magnitude().compare_magnitude(Wide::ONE) {
        std::cmp::Ordering::Less if value.is_zero() => x,
        std::cmp::Ordering::Less => computation.rounded(functions::power_less_one(value), true),
        std::cmp::Ordering::Equal if x.negative => {
            computation.rounded(Wide::scaled(1, -1).negated(), false)
        }
        _ => x,
    }
}

/// Functions of y and x; x is the top.
fn two(mnemonic: M, computation: &mut Computation, y: Extended, x: Extended) -> Option<Extended> {
    if let Err(result) = computation.check(&[y, x]) {
        return result;
    }
    match mnemonic {
        M::Fpatan => {
            computation.note_denormals(&[y, x])?;
            Some(arc_tangent(computation, y, x))
        }
        _ => logarithm(mnemonic == M::Fyl2xp1, computation, y, x),
    }
}

/// The angle of the point (x, y).
fn arc_tangent(computation: &mut Computation, y: Extended, x: Extended) -> Extended {
    let signed = |value: Wide| Wide {
        negative: y.negative,
        ..value
    };
    let vertical = match (y.kind(), x.kind()) {
        (NumberClass::Infinity, NumberClass::Infinity) if x.negative => Some((3, 4)),
        (NumberClass::Infinity, NumberClass::Infinity) => Some((1, 4)),
        (NumberClass::Infinity, _) => Some((1, 2)),
        (_, NumberClass::Infinity) | (NumberClass::Zero, _) if x.negative => Some((1, 1)),
        (_, NumberClass::Infinity) | (NumberClass::Zero, _) => return Extended::zero(y.negative),
        (_, NumberClass::Zero) => Some((1, 2)),
        _ => None,
    };
    if let Some((numerator, denominator)) = vertical {
        return computation.rounded(signed(functions::part_of_pi(numerator, denominator)), true);
    }
    let angle = functions::arc_tangent(y.value().magnitude(), x.value().magnitude());
    let angle = if x.negative {
        functions::part_of_pi(1, 1).minus(angle)
    } else {
        angle
    };
    computation.rounded(signed(angle), true)
}

/// y times the logarithm to base 2 of x, or of 1 + x.
fn logarithm(
    plus_one: bool,
    computation: &mut Computation,
    y: Extended,
    x: Extended,
) -> Option<Extended> {
    let of = match x.kind() {
        NumberClass::Infinity => None,
        _ if plus_one => Some(Wide::ONE.plus(x.value())),
        _ => Some(x.value()),
    };
    let negative = x.negative
        && if plus_one {
            of.is_none_or(|of| of.negative && !of.is_zero())
        } else {
            x.kind() != NumberClass::Zero
        };
    let is_zero = of.is_some_and(Wide::is_zero);
    // The logarithm's sign, and whether it is zero.
    let is_one = x.kind() == NumberClass::Zero && plus_one
        || !plus_one && of.is_some_and(|of| of == Wide::ONE);
    let falls = of.is_some_and(|of| of.exponent < 0 || is_zero) || plus_one && x.negative;
    let result_negative = y.negative != (falls || is_one && plus_one && x.negative);
    match (y.kind(), is_zero) {
        _ if negative => return computation.invalid(),
        (NumberClass::Zero, true) => return computation.invalid(),
        (NumberClass::Zero, _) if of.is_none() => return computation.invalid(),
        (NumberClass::Infinity, _) if is_one => return computation.invalid(),
        (NumberClass::Infinity, _) => {
            computation.note_denormals(&[x])?;
            return Some(Extended::infinity(result_negative));
        }
        (_, true) => {
            computation.raised |= status::ZERO_DIVIDE;
            let is_masked = computation.control.masks(status::ZERO_DIVIDE);
            return is_masked.then_some(Extended::infinity(!y.negative));
        }
        _ => {}
    }
    computation.note_denormals(&[y, x])?;
    if of.is_none() {
        return Some(Extended::infinity(y.negative));
    }
    if is_one || y.kind() == NumberClass::Zero {
        return Some(Extended::zero(result_negative));
    }
    let value = x.value();
    let (log, exact) = if plus_one {
        (functions::log2_of_one_plus(value), false)
    } else {
        (functions::log2(value), value.mantissa == 1 << 127)
    };
    Some(computation.rounded(y.value().times(log), !exact))
}
