//! Hot code: random loops, run at full speed and stopped at every instruction.
//!
//! Hot code and its checks of accesses must be invisible. So each loop runs several times: with a
//! stop after every single instruction, which never becomes hot, stopped each 211 instructions, and
//! stopped each 10,007, also with a saved and restored processor that continues from there.
//! Whenever two runs stop at the same count, all registers, flags and memory must agree.

use std::collections::BTreeMap;

use belljar_cpu::{Exit, Registers, Vcpu};
use belljar_exact_testing::bare::{CODE, DATA, Guest, RAM_BYTES, assemble, is_pooled};
use belljar_exact_testing::skipping::skipping;
use iced_x86::code_asm::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A step of a loop's body: operation, registers and distance.
type Step = (u8, usize, usize, i32);

const ROUNDS: u32 = 2500;

fn register(number: usize) -> AsmRegister64 {
    // RSP, RSI and RDI are addresses; RBP counts.
    [
        rax, rcx, rdx, rbx, r8, r9, r10, r11, r12, r13, r14, r15, rax, rcx, r14, r15,
    ][number % 16]
}

fn address(step: &Step) -> AsmMemoryOperand {
    let disp = step.3 & 0x7f;
    match step.2 % 5 {
        0 => qword_ptr(rsi + disp),
        1 => qword_ptr(rdi + disp),
        2 => qword_ptr(rsp - 8 - (disp & !7)),
        3 => qword_ptr(rsi + rbp * 8 + disp),
        _ => qword_ptr(rdi + rbp + disp),
    }
}

fn emit(a: &mut CodeAssembler, step: &Step, callee: CodeLabel) -> Result<(), IcedError> {
    let (to, from) = (register(step.1), register(step.2));
    match step.0 % 30 {
        0 => a.add(to, from),
        1 => a.sub(to, step.3),
        2 => a.xor(to, from),
        3 => a.adc(to, from),
        4 | 5 => a.mov(to, address(step)),
        6 | 7 => a.mov(address(step), to),
        8 => a.add(to, address(step)),
        9 => a.add(address(step), to),
        10 => a.sbb(address(step), step.3),
        11 => a.push(to).and_then(|()| a.pop(from)),
        12 => a.call(callee),
        13 => a.inc(to),
        14 => a.cmp(to, address(step)),
        15 => a.lea(to, ptr(from + step.3)),
        16 => a.movups(xmm1, xmmword_ptr(rsi + (step.3 & 0x7f))),
        17 => a.movups(xmmword_ptr(rdi + (step.3 & 0x7f)), xmm1),
        18 => a.shl(to, (step.3 & 3) as u32),
        19 => a.setc(al),
        20 => a.imul_2(to, from),
        21 => a.test(to, from),
        22 => a.mov(byte_ptr(rsi + (step.3 & 0x7f)), ah),
        23 => a.lahf(),
        24 => a.add(rsi, 8),
        25..29 => on_the_stack(a, step, to, from),
        _ => a.cmovl(to, from),
    }
}

/// Pushes, uses the stack in between, and pops.
fn on_the_stack(
    a: &mut CodeAssembler,
    step: &Step,
    to: AsmRegister64,
    from: AsmRegister64,
) -> Result<(), IcedError> {
    a.push(to)?;
    match step.0 % 30 {
        25 => {
            a.push(from)?;
            a.add(to, qword_ptr(rsp + 8))?;
            a.lea(from, ptr(rsp + 16))?;
            a.pop(to)
        }
        26 => {
            let mut over = a.create_label();
            a.test(from, from)?;
            a.js(over)?;
            a.xor(to, qword_ptr(rsp))?;
            a.set_label(&mut over)?;
            a.mov(qword_ptr(rsp - 16), from)
        }
        27 => {
            a.movups(xmmword_ptr(rsp - 32), xmm1)?;
            a.imul_2(to, qword_ptr(rsp))?;
            a.mov(qword_ptr(rsi + step.3.rem_euclid(0x40)), rsp)
        }
        _ => {
            a.mov(qword_ptr(rsp), from)?;
            a.push(step.3)?;
            a.sub(rsp, 8)?;
            a.add(rsp, 16)?;
            a.cmp(to, address(step))
        }
    }?;
    a.pop(from)
}

/// A loop over the steps; `skips` are conditional jumps over the following steps.
fn program(steps: &[Step], skips: &[(usize, u8)]) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let (mut head, mut start) = (a.create_label(), a.create_label());
    let mut callee = a.create_label();
    a.jmp(start)?;
    a.set_label(&mut callee)?;
    a.add(r12, qword_ptr(rsp))?;
    a.push(rbx)?;
    a.lea(rbx, ptr(rbx + r12 + 3))?;
    a.add(rax, rbx)?;
    a.pop(rbx)?;
    a.ret()?;
    a.set_label(&mut start)?;
    // Every few rounds, the operands cross a page boundary.
    a.mov(rsi, DATA + 0xe80)?;
    a.mov(rdi, DATA + 0x2f40)?;
    a.mov(ebp, ROUNDS)?;
    a.set_label(&mut head)?;
    skipping(&mut a, steps, skips, |a, step| emit(a, step, callee))?;
    a.and(rsi, 0x1f_ffff)?;
    a.or(rsi, DATA as i32)?;
    a.dec(rbp)?;
    a.jnz(head)?;
    a.hlt()?;
    a.assemble(CODE)
}

#[derive(Debug, PartialEq)]
struct Seen {
    registers: Registers,
    xmm: [u8; 64],
}

fn look(guest: &Guest) -> Seen {
    Seen {
        registers: guest.vcpu.registers(),
        xmm: guest.vcpu.vectors().vectors[1],
    }
}

struct Run {
    stops: BTreeMap<u64, Seen>,
    end: u64,
    memory: Vec<u8>,
    hot: u64,
}

/// Runs to the HLT of the program or of a fault, recording the state at multiples of `keep`. At
/// each stop another processor takes over if it `moves`.
fn run(code: &[u8], step: u64, moves: bool, keep: u64, seed: u64) -> Run {
    let mut guest = Guest::new(code);
    let mut registers = guest.vcpu.registers();
    for (number, value) in registers.gpr.iter_mut().enumerate() {
        if number != Registers::RSP {
            *value = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * number as u64);
        }
    }
    guest.vcpu.set_registers(&registers);
    let mut stops = BTreeMap::new();
    loop {
        match guest.run(step) {
            Exit::Deadline => {
                if moves {
                    guest = guest.moved();
                }
                if guest.vcpu.retired().is_multiple_of(keep) {
                    stops.insert(guest.vcpu.retired(), look(&guest));
                }
            }
            Exit::Halt => break,
            other => panic!("{other:?}"),
        }
        assert!(guest.vcpu.retired() < 10_000_000, "the loop does not end");
    }
    stops.insert(guest.vcpu.retired(), look(&guest));
    Run {
        end: guest.vcpu.retired(),
        stops,
        memory: guest.read(0, RAM_BYTES),
        hot: guest.vcpu.statistics().promoted,
    }
}

/// The number of fast runs with hot code.
fn agree(code: &[u8], seed: u64) -> Result<usize, TestCaseError> {
    let mut hot = 0;
    let slow = run(code, 1, false, 211, seed);
    let whole = 1 << 30;
    for (step, moves) in [
        (211, false),
        (10_007, false),
        (10_007, true),
        (whole, false),
    ] {
        let fast = run(code, step, moves, step, seed);
        hot += usize::from(fast.hot > 0);
        prop_assert_eq!(fast.end, slow.end, "instructions, stopped each {}", step);
        for (at, seen) in &fast.stops {
            if let Some(expected) = slow.stops.get(at) {
                prop_assert_eq!(
                    seen,
                    expected,
                    "at instruction {}, stopped each {}",
                    at,
                    step
                );
            }
        }
        let differs = slow
            .memory
            .iter()
            .zip(&fast.memory)
            .position(|(a, b)| a != b);
        prop_assert_eq!(differs, None, "memory, stopped each {}", step);
    }
    Ok(hot)
}

#[test]
fn random_loops_end_alike_however_they_are_stopped() {
    let cases = std::env::var("BELLJAR_CASES").ok();
    let config = Config {
        cases: cases.and_then(|cases| cases.parse().ok()).unwrap_or(40),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let step = (any::<u8>(), 0..16usize, 0..16usize, any::<i32>());
    let steps = prop::collection::vec(step, 1..24);
    let skips = prop::collection::vec((0..24usize, any::<u8>()), 0..4);
    let hot = std::cell::Cell::new(0);
    TestRunner::new_with_rng(config, rng)
        .run(&(steps, skips, any::<u64>()), |(steps, skips, seed)| {
            let code = program(&steps, &skips).expect("the steps assemble");
            agree(&code, seed).map(|more| hot.set(hot.get() + more))
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(
        hot.get() > 20 || is_pooled(),
        "only {} runs had hot code",
        hot.get()
    );
}

/// The instruction count of a REP STOS depends on its number of repetitions, and not on the
/// contiguous ranges in the TLB, which only hot code explores.
#[test]
fn a_long_fill_counts_alike_behind_hot_code_and_cold() {
    const HIGH: u64 = 0x4000_0000_0000;
    let mut a = CodeAssembler::new(64).unwrap();
    let (mut page, mut same) = (a.create_label(), a.create_label());
    a.mov(rdi, HIGH).unwrap();
    a.mov(ebp, 512).unwrap();
    a.set_label(&mut page).unwrap();
    a.mov(qword_ptr(rdi), rax).unwrap();
    a.add(rdi, 4096).unwrap();
    a.sub(ebp, 1).unwrap();
    a.jnz(page).unwrap();
    a.mov(rdi, HIGH).unwrap();
    a.mov(ebp, 4000).unwrap();
    a.set_label(&mut same).unwrap();
    a.mov(qword_ptr(rdi), rax).unwrap();
    a.mov(qword_ptr(rdi + 8), rax).unwrap();
    a.sub(ebp, 1).unwrap();
    a.jnz(same).unwrap();
    a.mov(rdi, HIGH + 0x800).unwrap();
    a.mov(ecx, 0x18_0000).unwrap();
    a.rep().stosb().unwrap();
    a.hlt().unwrap();
    let code = a.assemble(CODE).unwrap();
    let counted = [1, 1 << 30].map(|step| {
        let mut guest = Guest::new(&code);
        guest.map_far(HIGH, DATA);
        // The directory's entry: a page of 2 MiB.
        guest.write(0xb000, &(DATA | 0x87).to_le_bytes());
        while guest.run(step) == Exit::Deadline {}
        (guest.vcpu.retired(), guest.vcpu.statistics().promoted > 0)
    });
    let [(slow, _), (fast, is_hot)] = counted;
    assert!(is_hot || is_pooled());
    assert_eq!(slow, fast);
}

/// A sum with carries over memory that ends at the code's own page: a check of both accesses fails
/// there, and another block continues with the same carry.
#[test]
fn flags_last_over_checks_at_a_loops_beginning() {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut labels = [(); 5].map(|()| a.create_label());
    let [start, outer, inner, done, end] = &mut labels;
    a.jmp(*start).unwrap();
    a.db(&[0; 64]).unwrap();
    a.set_label(start).unwrap();
    a.mov(ebp, 200).unwrap();
    a.set_label(outer).unwrap();
    a.mov(ecx, 64).unwrap();
    a.mov(rsi, CODE - 512).unwrap();
    a.set_label(inner).unwrap();
    a.adc(qword_ptr(rsi), rax).unwrap();
    a.adc(qword_ptr(rsi + 8), rdx).unwrap();
    a.lea(rsi, ptr(rsi + 8)).unwrap();
    a.lea(rcx, ptr(rcx - 1)).unwrap();
    a.jrcxz(*done).unwrap();
    a.jmp(*inner).unwrap();
    a.set_label(done).unwrap();
    a.lea(rbp, ptr(rbp - 1)).unwrap();
    a.mov(rcx, rbp).unwrap();
    a.jrcxz(*end).unwrap();
    a.jmp(*outer).unwrap();
    a.set_label(end).unwrap();
    a.hlt().unwrap();
    let code = a.assemble(CODE).unwrap();
    for seed in [1, 0xffff_ffff_ffff_ffff, 0x8000_0000_0000_0001] {
        let hot = agree(&code, seed).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(hot > 0 || is_pooled());
    }
}

/// The end of a function sets no flags, so the flags at the block's beginning may be read after it.
/// It becomes hot without a turn that ends in it.
#[test]
fn code_that_leaves_flags_alone_becomes_hot() {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut labels = [(); 3].map(|()| a.create_label());
    let [round, leave, end] = &mut labels;
    a.mov(ecx, 2000).unwrap();
    a.mov(eax, i32::MAX).unwrap();
    a.add(eax, 1).unwrap();
    a.set_label(round).unwrap();
    a.push(rcx).unwrap();
    a.push(rbx).unwrap();
    a.jmp(*leave).unwrap();
    a.nop().unwrap();
    a.set_label(leave).unwrap();
    a.pop(rbx).unwrap();
    a.pop(rcx).unwrap();
    a.lea(rcx, ptr(rcx - 1)).unwrap();
    a.jrcxz(*end).unwrap();
    a.jmp(*round).unwrap();
    a.set_label(end).unwrap();
    a.pushfq().unwrap();
    a.pop(rdx).unwrap();
    a.hlt().unwrap();
    let code = a.assemble(CODE).unwrap();
    let ended = [1, 1 << 30].map(|step| {
        let mut guest = Guest::new(&code);
        while guest.run(step) == Exit::Deadline {}
        (look(&guest), guest.vcpu.statistics().promoted)
    });
    let [(stepped, _), (whole, hot)] = ended;
    assert_eq!(stepped, whole);
    // Overflow, sign, parity and adjust of the addition.
    assert_eq!(whole.registers.gpr[2] & 0x8d5, 0x894);
    assert!(hot > 0 || is_pooled());
}

/// A conversion of a NaN faults while a push's update of RSP is pending. There are no handlers, so
/// the processor shuts down at once.
#[test]
fn a_fault_of_sse_finds_the_stack_pointer_where_it_belongs() {
    let code = assemble(|a| {
        let [mut round, mut end] = [(); 2].map(|()| a.create_label());
        a.mov(ecx, 2000)?;
        a.mov(rsi, DATA)?;
        a.mov(dword_ptr(rsi), 0x1f00)?;
        a.ldmxcsr(dword_ptr(rsi))?;
        a.mov(dword_ptr(rsi), 0x3f80_0000)?;
        a.set_label(&mut round)?;
        a.push(rcx)?;
        a.cvttss2si(eax, dword_ptr(rsi))?;
        a.pop(rcx)?;
        a.test(rcx, rcx)?;
        a.jz(end)?;
        a.dec(rcx)?;
        a.jmp(round)?;
        a.set_label(&mut end)?;
        // The next round's operand is a NaN.
        a.mov(dword_ptr(rsi), 0x7fc0_0000)?;
        a.jmp(round)
    });
    let ended = [1, 1 << 30].map(|step| {
        let mut guest = Guest::new(&code);
        let exit = loop {
            match guest.run(step) {
                Exit::Deadline => {}
                exit => break format!("{exit:?}"),
            }
        };
        (exit, look(&guest), guest.vcpu.statistics().promoted)
    });
    let [(exit, stepped, _), (same, whole, hot)] = ended;
    assert_eq!((&exit, &stepped), (&same, &whole));
    assert!(hot > 0 || is_pooled());
}
