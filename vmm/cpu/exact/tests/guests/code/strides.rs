//! Loops whose addresses move by registers' values: several rounds are checked together, by their
//! first and last addresses only. The results must be the same if instructions run one by one or
//! all at once, even for a register so large that the last round's address wraps around to the
//! first one's.

use belljar_cpu::{Exit, PAGE_SIZE, Registers, Vcpu};
use belljar_exact_testing::bare::{CODE, DATA, Guest, RAM_BYTES, is_pooled};
use iced_x86::code_asm::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const OUTER: u32 = 40;

/// A loop: the steps of its body, and its registers.
#[derive(Clone, Debug)]
struct Loop {
    steps: Vec<u8>,
    /// The increment of the pointers.
    stride: i64,
    rounds: u32,
    /// The initial page offset of the pointers.
    start: u16,
    /// Number of instructions that only make the body longer.
    padding: usize,
}

impl Loop {
    /// The stride up to the loop's last execution: with strides that lead out of memory it would
    /// not become hot.
    fn warm(&self) -> i64 {
        if self.stride.unsigned_abs() <= 5000 {
            self.stride
        } else {
            16
        }
    }
}

fn emit(a: &mut CodeAssembler, step: u8) -> Result<(), IcedError> {
    match step % 15 {
        0 => a.mov(qword_ptr(rsi), rcx),
        1 => a.add(rdx, qword_ptr(rsi + rbx)),
        2 => a.mov(byte_ptr(rdi + rax), cl),
        3 => a.add(rdx, qword_ptr(rdi + rax)),
        4 => a.add(rsi, rbx),
        5 => a.add(rax, rbx),
        6 => a.add(qword_ptr(r14 + 8), rdx),
        7 => a.add(r14, rbx),
        8 => {
            a.mov(r8, rsi)?;
            for _ in 0..3 {
                a.add(r8, rbx)?;
                a.add(rdx, qword_ptr(r8))?;
            }
            Ok(())
        }
        9 => a.add(rsi, 8),
        10 => a.mov(qword_ptr(rsi + rax * 4), rdx),
        11 => a.add(rdx, qword_ptr(rbp)),
        13 => a.add(rdx, qword_ptr(rsi)),
        12 => a.add(rbp, rbx),
        _ => a.mov(qword_ptr(r14 + rax), rcx),
    }
}

fn program(of: &Loop) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let (mut outer, mut inner) = (a.create_label(), a.create_label());
    let (mut warm, mut all) = (a.create_label(), a.create_label());
    let low = if of.stride < 0 { DATA + 0xe_0000 } else { DATA };
    let from = low + u64::from(of.start);
    a.mov(r12d, OUTER)?;
    a.set_label(&mut outer)?;
    a.mov(rbx, of.warm())?;
    a.cmp(r12d, 1)?;
    a.jne(warm)?;
    a.mov(rbx, of.stride)?;
    a.set_label(&mut warm)?;
    a.mov(rsi, from)?;
    a.mov(rdi, from + 0x2_0000)?;
    a.mov(rbp, from + 0x6_0000)?;
    a.mov(r14, from + 0x4_0000)?;
    // Twice each time, few rounds and then all, on another page.
    a.lea(r10, ptr(r12 + 1))?;
    a.shr(r10, 1)?;
    a.and(r10, 7)?;
    a.shl(r10, 12)?;
    for pointer in [rsi, rdi, rbp, r14] {
        a.add(pointer, r10)?;
    }
    a.xor(eax, eax)?;
    a.mov(ecx, of.rounds)?;
    a.test(r12b, 1)?;
    a.jne(all)?;
    a.mov(ecx, of.rounds % 7 + 1)?;
    a.set_label(&mut all)?;
    // A separate block from the first round on.
    a.jmp(inner)?;
    a.set_label(&mut inner)?;
    for &step in &of.steps {
        emit(&mut a, step)?;
    }
    for _ in 0..of.padding {
        a.xor(r9, rdx)?;
    }
    a.sub(ecx, 1)?;
    a.jnz(inner)?;
    a.sub(r12d, 1)?;
    a.jnz(outer)?;
    a.hlt()?;
    a.assemble(CODE)
}

/// Maps the data in mixed order: consecutive pages of the guest are seldom contiguous in memory.
fn scatter(guest: &Guest) {
    const PAGES: u64 = 512;
    for page in 0..PAGES {
        let from = DATA + (page * 37 + 11) % PAGES * PAGE_SIZE;
        guest.map(DATA + page * PAGE_SIZE, from, 1);
    }
}

fn outcome(code: &[u8], step: u64) -> (u64, Registers, Vec<u8>, bool) {
    let mut guest = Guest::new(code);
    scatter(&guest);
    loop {
        match guest.run(step) {
            Exit::Deadline => {}
            Exit::Halt => break,
            other => panic!("{other:?}"),
        }
    }
    let hot = guest.vcpu.statistics().promoted > 0;
    let memory = guest.read(0, RAM_BYTES);
    (guest.vcpu.retired(), guest.vcpu.registers(), memory, hot)
}

/// Checks that all runs agree; returns true if the code became hot.
fn agrees(of: &Loop) -> Result<bool, TestCaseError> {
    let code = program(of).expect("the steps assemble");
    let slow = outcome(&code, 1);
    let mut hot = false;
    for step in [1 << 30, 211] {
        let fast = outcome(&code, step);
        prop_assert_eq!(fast.0, slow.0, "instructions, stopped each {}", step);
        prop_assert_eq!(&fast.1, &slow.1, "registers, stopped each {}", step);
        let differs = slow.2.iter().zip(&fast.2).position(|(a, b)| a != b);
        prop_assert_eq!(differs, None, "memory, stopped each {}", step);
        hot |= fast.3;
    }
    Ok(hot)
}

/// Strides that stay in memory, that leave it, and whose multiples wrap around.
fn strides() -> impl Strategy<Value = i64> {
    let around = |(parts, more): (u64, i64)| ((u64::MAX / parts) as i64).wrapping_add(more);
    prop_oneof![
        6 => prop::sample::select(vec![0, 1, 8, -8, 16, -24, 40, -72, 120, 1000, -1000, 4096]),
        1 => prop::sample::select(vec![1 << 31, -(1 << 31), 1 << 33, i64::MIN, (1 << 32) + 8]),
        2 => (2..80u64, -16..16i64).prop_map(around),
    ]
}

#[test]
fn loops_with_strides_in_registers_end_alike() {
    let cases = std::env::var("BELLJAR_CASES").ok();
    let config = Config {
        cases: cases.and_then(|cases| cases.parse().ok()).unwrap_or(150),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    const PAGE: u16 = PAGE_SIZE as u16;
    let loops = (
        prop::collection::vec(any::<u8>(), 1..7),
        strides(),
        1..120u32,
        prop_oneof![0..PAGE, PAGE - 64..PAGE],
        0..30usize,
    );
    let hot = std::cell::Cell::new(0);
    TestRunner::new_with_rng(config, rng)
        .run(&loops, |(steps, stride, rounds, start, padding)| {
            let of = Loop {
                steps,
                stride,
                rounds,
                start,
                padding,
            };
            hot.set(hot.get() + u32::from(agrees(&of)?));
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(hot.get() > 20 || is_pooled(), "{} were hot", hot.get());
}

/// For each number of rounds checked together, a stride whose multiples wrap around after that many
/// rounds.
#[test]
fn strides_that_come_around_fault_where_they_do() {
    // The host reports faults of addresses based on RBP differently.
    for (parts, steps) in (2..140u64).map(|n| (n / 2, [[3, 5], [11, 12]][n as usize % 2])) {
        let of = Loop {
            steps: steps.into(),
            stride: (u64::MAX / parts.max(1)).wrapping_add(1) as i64,
            rounds: 60,
            start: 0x80,
            padding: parts as usize % 7,
        };
        let hot = agrees(&of).unwrap_or_else(|failure| panic!("{parts}: {failure}"));
        assert!(hot || is_pooled(), "{parts}");
    }
}
