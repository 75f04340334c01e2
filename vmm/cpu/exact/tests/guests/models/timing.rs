//! The time model: random programs compared with a simple model, instruction by instruction, and
//! with themselves for various stops.
#![allow(clippy::print_stderr)]

use std::collections::BTreeMap;

use belljar_cpu::{Exit, InstructionSet, Level, Registers, TimeAccount, Vcpu};
use belljar_exact::{CacheLevel, CacheModel, Costs, Timing};
use belljar_exact_testing::bare::{CODE, DATA, Guest, RAM_BYTES, is_pooled};
use belljar_exact_testing::plain::Plain;
use belljar_exact_testing::skipping::skipping;
use belljar_pipeline::processor::Processor;
use iced_x86::Decoder;
use iced_x86::code_asm::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A step of a loop's body: operation, registers and distance.
type Step = (u8, usize, usize, i32);

const ROUNDS: u32 = 900;

fn register(number: usize) -> AsmRegister64 {
    // RSP, RSI and RDI are addresses; RBP counts.
    [rax, rdx, rbx, r8, r9, r10, r11, r12, r13, r14, r15][number % 11]
}

fn address(step: &Step) -> AsmMemoryOperand {
    let disp = step.3 & 0x1fff;
    match step.2 % 5 {
        0 => ptr(rsi + disp),
        1 => ptr(rdi + disp),
        2 => ptr(rsp - 8 - (disp & 0x78)),
        3 => ptr(rsi + rbp * 8 + disp),
        _ => ptr(rdi + rbp + disp),
    }
}

fn emit(a: &mut CodeAssembler, step: &Step, callee: CodeLabel) -> Result<(), IcedError> {
    let (to, from) = (register(step.1), register(step.2));
    match step.0 % 25 {
        0 => a.add(to, from),
        1 | 2 => a.mov(to, qword_ptr(address(step))),
        3 | 4 => a.mov(qword_ptr(address(step)), to),
        5 => a.add(qword_ptr(address(step)), to),
        6 => a.add(to, qword_ptr(address(step))),
        7 => a.push(to).and_then(|()| a.pop(from)),
        8 => a.call(callee),
        9 => a.imul_2(to, from),
        10 => a.addsd(xmm1, xmm2),
        11 => a.mulpd(xmm1, xmmword_ptr(DATA + 0x4000)),
        12 => a.movups(xmm2, xmmword_ptr(address(step))),
        13 => a.movups(xmmword_ptr(address(step)), xmm2),
        14 => a.push(qword_ptr(address(step))).and_then(|()| a.pop(to)),
        15 => a.lock().add(qword_ptr(address(step)), to),
        16 => a.bts(qword_ptr(rsi), rbp),
        17 => {
            a.mov(ecx, (step.3 & 0xff) as u32)?;
            a.push(rsi)?;
            a.push(rdi)?;
            a.rep().movsb()?;
            a.pop(rdi)?;
            a.pop(rsi)
        }
        18 => {
            a.mov(ecx, (step.3 & 0x3f) as u32)?;
            a.push(rdi)?;
            a.repne().scasw()?;
            a.pop(rdi)
        }
        19 => a.fxsave(ptr(rdi + (step.3 & 0xff0))),
        20 => a.adc(byte_ptr(address(step)), al),
        21 => a.add(rsi, 8),
        22 => {
            a.lea(rax, ptr(callee))?;
            a.call(rax)
        }
        23 => {
            a.xor(edx, edx)?;
            a.mov(ecx, 7)?;
            a.mov(eax, 1000)?;
            a.div(ecx)
        }
        _ => a.cmovl(to, from),
    }
}

/// A loop over the steps; `skips` are conditional jumps over the following steps.
fn program(steps: &[Step], skips: &[(usize, u8)]) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let (mut head, mut start) = (a.create_label(), a.create_label());
    let mut callee = a.create_label();
    a.jmp(start)?;
    a.set_label(&mut callee)?;
    a.add(r12, qword_ptr(rsp))?;
    a.ret()?;
    a.set_label(&mut start)?;
    a.mov(rsi, DATA + 0xe80)?;
    a.mov(rdi, DATA + 0x1_2f40)?;
    a.mov(ebp, ROUNDS)?;
    a.set_label(&mut head)?;
    skipping(&mut a, steps, skips, |a, step| emit(a, step, callee))?;
    a.and(rsi, 0xf_fff8)?;
    a.or(rsi, DATA as i32)?;
    a.dec(rbp)?;
    a.jnz(head)?;
    a.hlt()?;
    a.assemble(CODE)
}

/// The configuration of a guest.
struct Model {
    timing: Timing,
    set: InstructionSet,
}

#[derive(Debug, PartialEq)]
struct Seen {
    now: u64,
    account: TimeAccount,
    registers: Registers,
    xmm: [u8; 64],
}

fn look(guest: &Guest) -> Seen {
    Seen {
        now: guest.vcpu.now(),
        account: guest.vcpu.account().unwrap(),
        registers: guest.vcpu.registers(),
        xmm: guest.vcpu.vectors().vectors[1],
    }
}

fn start(code: &[u8], model: &Model, seed: u64) -> Guest {
    let mut guest = Guest::with_timing(code, model.timing.clone(), &model.set);
    let mut registers = guest.vcpu.registers();
    for (number, value) in registers.gpr.iter_mut().enumerate() {
        if number != Registers::RSP {
            *value = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * number as u64);
        }
    }
    guest.vcpu.set_registers(&registers);
    guest
}

struct Run {
    stops: BTreeMap<u64, Seen>,
    memory: Vec<u8>,
    hot: u64,
}

/// Runs instruction by instruction together with the simple model.
fn walk(code: &[u8], model: &Model, seed: u64) -> Run {
    let mut guest = start(code, model, seed);
    let mut plain = Plain::new(&model.timing, &model.set, code, CODE);
    let mut stops = BTreeMap::new();
    stops.insert(0, look(&guest));
    for number in 1.. {
        let before = guest.vcpu.registers();
        let at = (before.rip - CODE) as usize;
        let instruction = Decoder::with_ip(64, &code[at..], before.rip, 0).decode();
        guest.vcpu.stop_at(number);
        let exit = guest.vcpu.run(u64::MAX).unwrap();
        let seen = look(&guest);
        plain.execute(&instruction, &before, &seen.registers);
        assert_eq!(seen.account, plain.account, "{instruction} number {number}");
        assert_eq!(seen.now, plain.cycles(), "{instruction} number {number}");
        stops.insert(number, seen);
        match exit {
            Exit::Deadline => {}
            Exit::Halt => break,
            other => panic!("{other:?}"),
        }
        assert!(number < 1_000_000, "the loop does not end");
    }
    Run {
        stops,
        memory: guest.read(0, RAM_BYTES),
        hot: 0,
    }
}

/// Runs with a stop each `step` cycles, which must be the first boundary there.
fn run(code: &[u8], model: &Model, step: u64, seed: u64, slow: &Run) -> Run {
    let mut guest = start(code, model, seed);
    let mut stops = BTreeMap::new();
    loop {
        let until = guest.vcpu.now() + step;
        let exit = guest.vcpu.run(until).unwrap();
        let seen = look(&guest);
        let number = seen.account.instructions;
        if exit == Exit::Deadline {
            let before = &slow.stops[&(number - 1)];
            assert!(
                seen.now >= until && before.now < until,
                "stopped each {step}: {until} lies not between {} and {}",
                before.now,
                seen.now
            );
        }
        stops.insert(number, seen);
        match exit {
            Exit::Deadline => {}
            Exit::Halt => break,
            other => panic!("{other:?}"),
        }
    }
    Run {
        stops,
        memory: guest.read(0, RAM_BYTES),
        hot: guest.vcpu.statistics().promoted,
    }
}

/// The number of fast runs with hot code.
fn agree(code: &[u8], model: &Model, seed: u64) -> Result<usize, TestCaseError> {
    let mut hot = 0;
    let slow = walk(code, model, seed);
    for step in [7, 211, 10_007, 1 << 30] {
        let fast = run(code, model, step, seed, &slow);
        hot += usize::from(fast.hot > 0);
        for (at, seen) in &fast.stops {
            let expected = slow.stops.get(at);
            prop_assert_eq!(Some(seen), expected, "at {}, stopped each {}", at, step);
        }
        let last = |run: &Run| run.stops.keys().next_back().copied();
        prop_assert_eq!(last(&fast), last(&slow), "the end, stopped each {}", step);
        let mut pairs = slow.memory.iter().zip(&fast.memory);
        let differs = pairs.position(|(a, b)| a != b);
        prop_assert_eq!(differs, None, "memory, stopped each {}", step);
    }
    Ok(hot)
}

fn try_all(model: &Model, cases: u32) -> usize {
    let asked = std::env::var("BELLJAR_CASES").ok();
    let config = Config {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(cases),
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
            agree(&code, model, seed).map(|more| hot.set(hot.get() + more))
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    hot.get()
}

fn level(bytes: u64, ways: u32, latency: u32) -> CacheLevel {
    CacheLevel {
        bytes,
        ways,
        latency,
    }
}

fn caches(levels: Vec<CacheLevel>, memory: u32) -> Timing {
    let model = CacheModel { levels, memory };
    model.check().unwrap();
    Timing {
        costs: Costs::default(),
        caches: Some(model),
        processor: None,
        has_memory: false,
    }
}

#[test]
fn costs_are_paid_alike_however_a_program_is_stopped() {
    let timing = Timing {
        costs: Costs::default(),
        caches: None,
        processor: None,
        has_memory: false,
    };
    let set = InstructionSet::default();
    let hot = try_all(&Model { timing, set }, 12);
    assert!(hot > 10 || is_pooled(), "only {hot} runs had hot code");
}

/// Guests with AVX-512 leave no register for the counter.
#[test]
fn costs_are_paid_alike_when_they_are_counted_in_memory() {
    let set = InstructionSet::from(Level::V4);
    if belljar_exact::host_requirements(&set).is_err() {
        eprintln!("SKIPPED: this host lacks AVX-512");
        return;
    }
    let timing = Timing {
        costs: Costs::default(),
        caches: None,
        processor: None,
        has_memory: false,
    };
    let set_of = |timing| Model {
        timing,
        set: set.clone(),
    };
    let hot = try_all(&set_of(timing), 6);
    assert!(hot > 5 || is_pooled(), "only {hot} runs had hot code");
    try_all(&set_of(caches(vec![level(4096, 4, 0)], 80)), 4);
}

/// A processor's time is that of the simple model at every instruction.
#[test]
fn a_processor_takes_the_same_time_however_a_program_is_stopped() {
    let processor = Processor::built_in("zen5").unwrap();
    let timing = Timing {
        costs: Costs::default(),
        caches: None,
        processor: Some(processor.into()),
        has_memory: true,
    };
    let set = InstructionSet::default();
    let model = |timing| Model {
        timing,
        set: set.clone(),
    };
    let core = Timing {
        has_memory: false,
        ..timing.clone()
    };
    try_all(&model(timing), 12);
    let hot = try_all(&model(core), 12);
    assert!(hot > 3 || is_pooled(), "only {hot} runs had hot code");
}

/// The same if one page of two is modelled.
#[test]
fn a_sample_of_pages_takes_the_same_time_however_a_program_is_stopped() {
    let mut processor = Processor::built_in("zen5").unwrap();
    processor.caches = processor.caches.sampled(2);
    let timing = Timing {
        costs: Costs::default(),
        caches: None,
        processor: Some(processor.into()),
        has_memory: true,
    };
    let set = InstructionSet::default();
    try_all(&Model { timing, set }, 8);
}

/// The same with the counter in memory, and with caches.
#[test]
fn a_processor_takes_the_same_time_in_memory_and_with_caches() {
    let processor = Processor::built_in("zen5").unwrap();
    let timing = Timing {
        processor: Some(processor.into()),
        has_memory: true,
        ..caches(vec![level(4096, 4, 0)], 80)
    };
    let set = InstructionSet::default();
    try_all(
        &Model {
            timing: timing.clone(),
            set,
        },
        4,
    );
    let set = InstructionSet::from(Level::V4);
    if belljar_exact::host_requirements(&set).is_err() {
        eprintln!("SKIPPED: this host lacks AVX-512");
        return;
    }
    let timing = Timing {
        caches: None,
        ..timing
    };
    try_all(&Model { timing, set }, 6);
}

#[test]
fn caches_are_as_the_plain_model_however_a_program_is_stopped() {
    let small = vec![
        level(1024, 2, 0),
        level(8192, 4, 11),
        level(32 << 10, 8, 37),
    ];
    let direct = vec![level(128, 1, 0)];
    let usual = vec![level(48 << 10, 12, 0), level(2 << 20, 16, 14)];
    let large = vec![level(512 << 10, 4, 0)];
    for (levels, memory) in [(small, 203), (direct, 97), (usual, 150), (large, 50)] {
        let timing = caches(levels, memory);
        let set = InstructionSet::default();
        try_all(&Model { timing, set }, 5);
    }
}

/// Reads an array of `kib` KiB 20 times, a word of each line; returns the cycles in caches and
/// memory per read.
fn sweep(kib: u64) -> (f64, f64) {
    let levels = vec![level(4 << 10, 4, 0), level(64 << 10, 8, 12)];
    let lines = kib * 16;
    let mut a = CodeAssembler::new(64).unwrap();
    let (mut again, mut next) = (a.create_label(), a.create_label());
    a.mov(ebx, 20).unwrap();
    a.set_label(&mut again).unwrap();
    a.mov(rsi, DATA).unwrap();
    a.mov(ecx, lines as u32).unwrap();
    a.set_label(&mut next).unwrap();
    a.add(rax, qword_ptr(rsi)).unwrap();
    a.add(rsi, 64).unwrap();
    a.sub(ecx, 1).unwrap();
    a.jnz(next).unwrap();
    a.dec(ebx).unwrap();
    a.jnz(again).unwrap();
    a.hlt().unwrap();
    let code = a.assemble(CODE).unwrap();
    let mut guest = Guest::with_timing(&code, caches(levels, 200), &InstructionSet::default());
    assert_eq!(guest.run(1 << 40), Exit::Halt);
    let account = guest.vcpu.account().unwrap();
    let reads = (lines * 20) as f64;
    (account.caches as f64 / reads, account.memory as f64 / reads)
}

#[test]
fn an_array_costs_more_when_it_outgrows_a_level() {
    // The first of 20 rounds goes to memory; LRU then keeps all of an array or none.
    let first = 200.0 / 20.0;
    assert_eq!(sweep(4), (0.0, first));
    assert_eq!(sweep(64), (12.0 * 19.0 / 20.0, first));
    assert_eq!(sweep(256), (0.0, 200.0));
}

/// Paying for a line does not make an instruction retired: a faulting instruction is not
/// single-stepped.
#[test]
fn an_access_of_what_faults_is_no_single_step() {
    let mut a = CodeAssembler::new(64).unwrap();
    a.pushfq().unwrap();
    a.or(qword_ptr(rsp), 0x100).unwrap();
    a.popfq().unwrap();
    a.div(qword_ptr(DATA)).unwrap();
    let code = a.assemble(CODE).unwrap();
    let timing = caches(vec![level(4096, 4, 0)], 200);
    let mut guest = Guest::with_timing(&code, timing, &InstructionSet::default());
    assert_eq!(guest.run_to_halt(), Some(0));
}
