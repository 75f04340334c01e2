//! Loops of floating point and of vectors.
//!
//! Vector registers hold 1.0 in double precision at a loop's start, or in single precision where its setup writes it:
//! no operation is slow for its operands. `loops` adds them to the others.

use iced_x86::code_asm::{
    AsmRegisterXmm, CodeAssembler, eax, rax, rcx, st0, st1, xmm0, xmm1, xmm2,
};

use super::{Emitted, Extension, Loop, VECTORS, times};

/// Operations in a round: five for each of the registers from the third on but one.
const INDEPENDENT: u32 = 60;
const CHAINED: u32 = 32;

/// A chain `$op xmm0, xmm1`, and independent ones into other registers.
macro_rules! pair {
    ($latency:literal, $rate:literal, $op:ident $(, $extra:expr)?) => {
        [
            Loop::new($latency, CHAINED, |a| times(a, CHAINED, |a| a.$op(xmm0, xmm1 $(, $extra)?))),
            Loop::new($rate, INDEPENDENT, |a| independent(a, |a, x| a.$op(x, xmm1 $(, $extra)?))),
        ]
    };
}

/// A chain `$op xmm0, xmm0`, and independent ones.
macro_rules! single {
    ($latency:literal, $rate:literal, $op:ident) => {
        [
            Loop::new($latency, CHAINED, |a| {
                times(a, CHAINED, |a| a.$op(xmm0, xmm0))
            }),
            Loop::new($rate, INDEPENDENT, |a| {
                independent(a, |a, x| a.$op(x, xmm1))
            }),
        ]
    };
}

pub(super) fn all() -> Vec<Loop> {
    let mut all: Vec<Loop> = arithmetic().into_iter().flatten().collect();
    all.extend(integers().into_iter().flatten());
    all.extend(between());
    all.extend(others());
    all
}

/// Emits `one` for registers 3 to 14, five times.
fn independent(
    a: &mut CodeAssembler,
    mut one: impl FnMut(&mut CodeAssembler, AsmRegisterXmm) -> Emitted,
) -> Emitted {
    times(a, INDEPENDENT / 12, |a| {
        VECTORS[3..15].iter().try_for_each(|&x| one(a, x))
    })
}

/// Fills all vector registers with 1.0 in double precision.
pub(crate) fn ones(a: &mut CodeAssembler) -> Emitted {
    a.mov(rax, 0x3ff0_0000_0000_0000u64)?;
    a.movq(xmm0, rax)?;
    a.punpcklqdq(xmm0, xmm0)?;
    VECTORS[1..].iter().try_for_each(|&x| a.movaps(x, xmm0))
}

/// The same in single precision.
fn single_ones(a: &mut CodeAssembler) -> Emitted {
    a.mov(eax, 0x3f80_0000u32)?;
    a.movd(xmm0, eax)?;
    a.shufps(xmm0, xmm0, 0)?;
    VECTORS[1..].iter().try_for_each(|&x| a.movaps(x, xmm0))
}

fn arithmetic() -> Vec<[Loop; 2]> {
    let single = |pair: [Loop; 2]| pair.map(|one| one.with(single_ones));
    vec![
        pair!("fp-add-latency", "fp-add-rate", addpd),
        pair!("fp-multiply-latency", "fp-multiply-rate", mulpd),
        pair!("fp-divide-double-latency", "fp-divide-double-rate", divpd),
        single(pair!(
            "fp-divide-single-latency",
            "fp-divide-single-rate",
            divps
        )),
        single!("fp-root-double-latency", "fp-root-double-rate", sqrtpd),
        single(single!(
            "fp-root-single-latency",
            "fp-root-single-rate",
            sqrtps
        )),
        single(single!("fp-estimate-latency", "fp-estimate-rate", rcpps)),
        single!("convert-latency", "convert-rate", cvtdq2ps),
    ]
}

fn integers() -> Vec<[Loop; 2]> {
    vec![
        pair!("vector-logic-latency", "vector-logic-rate", pand),
        pair!("vector-integer-latency", "vector-integer-rate", paddd),
        pair!("vector-shift-latency", "vector-shift-rate", psrld),
        pair!("vector-shuffle-latency", "vector-shuffle-rate", unpcklpd),
        pair!("vector-multiply-latency", "vector-multiply-rate", pmulld),
        pair!("fp-compare-latency", "fp-compare-rate", cmppd, 1),
    ]
}

/// Moves and conversions between general and vector registers, in circles.
fn between() -> Vec<Loop> {
    vec![
        Loop::new("to-vector-and-back", CHAINED, |a| {
            times(a, CHAINED, |a| {
                a.movq(xmm0, rax)?;
                a.movq(rax, xmm0)
            })
        }),
        Loop::new("to-fp-and-move-back", CHAINED, |a| {
            times(a, CHAINED, |a| {
                a.cvtsi2sd(xmm0, rax)?;
                a.movq(rax, xmm0)
            })
        }),
        Loop::new("move-and-to-integer", CHAINED, |a| {
            times(a, CHAINED, |a| {
                a.movq(xmm0, rax)?;
                a.cvttsd2si(rax, xmm0)
            })
        }),
        Loop::new("transfer-rate", CHAINED, |a| {
            times(a, CHAINED / 8, |a| {
                VECTORS[4..12].iter().try_for_each(|&x| a.movq(x, rcx))
            })
        }),
        // A comparison, a conditional move, and a move to the next comparison's operand.
        Loop::new("flags-and-to-vector", CHAINED, |a| {
            times(a, CHAINED, |a| {
                a.ucomisd(xmm1, xmm1)?;
                a.cmova(rax, rcx)?;
                a.movq(xmm1, rax)
            })
        }),
    ]
}

fn others() -> Vec<Loop> {
    vec![
        // Two classes, so that neither uses an early result of its own.
        Loop::new("add-and-multiply", CHAINED, |a| {
            times(a, CHAINED, |a| {
                a.addpd(xmm0, xmm1)?;
                a.mulpd(xmm0, xmm2)
            })
        }),
        Loop::new("fp-fma-latency", CHAINED, |a| {
            times(a, CHAINED, |a| a.vfmadd231pd(xmm0, xmm1, xmm2))
        })
        .needs(Extension::Fma),
        Loop::new("crypto-latency", CHAINED, |a| {
            times(a, CHAINED, |a| a.aesenc(xmm0, xmm1))
        })
        .needs(Extension::Aes),
        Loop::new("x87-latency", CHAINED, |a| {
            times(a, CHAINED, |a| a.fadd_2(st0, st1))
        })
        .with(stack),
        Loop::new("x87-divide-latency", 8, |a| {
            times(a, 8, |a| a.fdiv_2(st0, st1))
        })
        .with(stack),
    ]
}

/// Two numbers on the x87's stack.
fn stack(a: &mut CodeAssembler) -> Emitted {
    a.fld1()?;
    a.fld1()
}
