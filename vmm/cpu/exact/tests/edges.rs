//! Edge cases of instructions in user mode, compared with the host's processor: instructions of 14 to 17 bytes, REP
//! that faults or is single-stepped, unmapped frames of ENTER.
//!
//! `BELLJAR_SEED` selects other cases, `BELLJAR_EFFORT` multiplies their number.
#![allow(missing_docs, clippy::print_stderr)]

use std::sync::{Mutex, MutexGuard};

use belljar_exact_testing::encoding::Dice;
use belljar_exact_testing::host::{host_set, number};
use belljar_exact_testing::machine::guest::Engine;
use belljar_exact_testing::machine::makers::{Maker, settle};
use belljar_exact_testing::machine::open::{open_flags, settle_order};
use belljar_exact_testing::machine::{ARENA, END, HALF, INNER, LAST, Machine, PAGE, inputs};
use belljar_exact_testing::native::Native;
use belljar_sim::{Random, Seed};

/// Cases of each kind.
const CASES: u64 = 4000;
/// The first non-canonical address.
const EDGE: u64 = 1 << 47;

/// Its first byte.
const ENTER: u8 = 0xc8;

/// One test at a time, because they share the arena's addresses.
static TURN: Mutex<()> = Mutex::new(());

struct Duel {
    native: Native,
    engine: Engine,
    dice: Dice,
    maker: Maker,
    _turn: MutexGuard<'static, ()>,
}

impl Duel {
    fn new(name: &'static str) -> Self {
        let turn = TURN.lock().unwrap_or_else(|broken| broken.into_inner());
        // First its signal handlers: the engine passes on signals that are not its own.
        let native = Native::new();
        let seed = number("BELLJAR_SEED").unwrap_or(1);
        Self {
            native,
            engine: Engine::with_host_results(&host_set()),
            maker: Maker::of_host(),
            dice: Dice(Random::new(Seed(seed), name, 0)),
            _turn: turn,
        }
    }

    fn machine(&mut self) -> Machine {
        inputs::random(&mut self.dice)
    }

    /// Runs `code` on both sides and checks that the outcomes agree; returns the final vector.
    fn agree(&mut self, code: &[u8], machine: &Machine) -> u8 {
        self.agree_from(code, machine, None)
    }

    /// The same, for code whose last instruction begins with state `start`.
    fn agree_from(&mut self, code: &[u8], machine: &Machine, start: Option<&Machine>) -> u8 {
        self.native.load(code);
        self.engine.load(code);
        let expected = self.native.run(machine, code.len());
        for step in [1000, 1] {
            let (mut found, _) = self.engine.run(machine, step);
            settle_order(code, &mut found, &expected);
            settle(self.maker, code, start, &mut found, &expected);
            if code[0] == ENTER && expected.vector != END && self.maker != Maker::Amd {
                // Values pushed before the fault are below the stack pointer.
                found.machine.memory.clone_from(&expected.machine.memory);
            }
            // Makers differ in the order of alignment and paging checks, and Intel's processors check alignment
            // first.
            let paged = found.vector == 14 || found.vector == 12 && self.maker == Maker::Intel;
            if expected.vector == 17 && paged && expected.rip == found.rip {
                continue;
            }
            let differences = found.differences(&expected, open_flags(code, &expected));
            assert!(
                differences.is_empty(),
                "{code:02x?}, exception {}, stopped each {step}:\n{differences}",
                expected.vector
            );
        }
        expected.vector
    }
}

fn cases() -> u64 {
    CASES * number("BELLJAR_EFFORT").unwrap_or(1)
}

#[test]
fn instructions_of_more_than_15_bytes_are_refused() {
    /// NOP, ADD, MOV, XORPS, VXORPS, an undefined opcode, and an instruction that does not permit LOCK.
    const BODIES: [&[u8]; 8] = [
        &[0x90],
        &[0x01, 0xd8],
        &[0x48, 0xc7, 0xc0, 1, 2, 3, 4],
        &[0x0f, 0x57, 0xc1],
        &[0xc5, 0xf8, 0x57, 0xc1],
        &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0x0f, 0x04],
        &[0xf0, 0x90],
    ];
    const DEFINED: usize = 6;
    let mut duel = Duel::new("long");
    let mut ends = [0u64; 32];
    for _ in 0..cases() {
        // The length of undefined instructions is only known for AMD's processors.
        let known = if duel.maker == Maker::Amd {
            BODIES.len()
        } else {
            DEFINED
        };
        let body = duel.dice.pick(&BODIES[..known]);
        let length = 13 + duel.dice.below(5) as usize;
        let mut code: Vec<u8> = (body.len()..length)
            .map(|_| duel.dice.pick(&[0x66, 0x2e, 0x36, 0x3e, 0x26]))
            .collect();
        code.extend_from_slice(body);
        let machine = duel.machine();
        ends[duel.agree(&code, &machine) as usize] += 1;
    }
    assert!(
        ends[13] > 0 && ends[6] > 0 && ends[END as usize] > 0,
        "{ends:?}"
    );
}

/// `prefix` and a string instruction, on both strings.
fn repeated(dice: &mut Dice, opcodes: &[u8]) -> Vec<u8> {
    let opcode = dice.pick(opcodes);
    let prefix = dice.pick(&[0xf2, 0xf3]);
    let wide: &[u8] = dice.pick(&[&[][..], &[0x48], &[0x66]]);
    match wide {
        [0x66] => vec![0x66, prefix, opcode],
        _ => [&[prefix], wide, &[opcode]].concat(),
    }
}

/// Strings that are usually equal, and end at the end of a window or of all memory.
fn strings(dice: &mut Dice, machine: &mut Machine) {
    let same = dice.below(4) > 0;
    for byte in &mut machine.memory {
        *byte = if same || dice.below(8) > 0 { 7 } else { 8 };
    }
    let registers = &mut machine.registers;
    registers.gpr[0] = 0x0707_0707_0707_0707 + dice.below(2);
    registers.gpr[1] = dice.below(24);
    for number in [6, 7] {
        registers.gpr[number] = match dice.below(6) {
            0 => INNER + dice.below(HALF),
            1 => EDGE - dice.below(9),
            2 => ARENA + 3 * PAGE + dice.below(64),
            _ => LAST + HALF - dice.below(96),
        };
    }
}

#[test]
fn repetitions_that_fault_leave_what_they_leave_on_the_host() {
    let mut duel = Duel::new("repeat");
    let mut faults = 0;
    for _ in 0..cases() {
        let code = repeated(
            &mut duel.dice,
            &[0xa4, 0xa5, 0xa6, 0xa7, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf],
        );
        let mut machine = duel.machine();
        strings(&mut duel.dice, &mut machine);
        faults += u64::from(duel.agree(&code, &machine) != END);
    }
    assert!(faults > 100, "{faults} faults");
}

#[test]
fn a_single_step_ends_after_one_repetition() {
    // pushfq; or dword [rsp], 0x100; popfq
    const STEP: [u8; 9] = [0x9c, 0x81, 0x0c, 0x24, 0, 1, 0, 0, 0x9d];
    let mut duel = Duel::new("step");
    let mut traps = 0;
    for _ in 0..cases() {
        let string = repeated(
            &mut duel.dice,
            &[0xa4, 0xa5, 0xa6, 0xa7, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf],
        );
        let mut code = STEP.to_vec();
        code.extend_from_slice(&string);
        let mut machine = duel.machine();
        strings(&mut duel.dice, &mut machine);
        machine.registers.gpr[4] = INNER + HALF;
        machine.registers.gpr[1] = duel.dice.below(4);
        // Code that pushes values also pops them.
        traps += u64::from(duel.agree_from(&code, &machine, Some(&machine)) == 1);
    }
    assert!(traps > 100, "{traps} traps");
}

#[test]
fn frames_of_enter_fault_as_on_the_host() {
    let mut duel = Duel::new("enter");
    let mut ends = [0u64; 32];
    for _ in 0..cases() {
        let room = duel.dice.below(40) as u8;
        let level = duel.dice.below(6) as u8;
        let mut machine = duel.machine();
        if duel.dice.below(2) == 0 {
            machine.registers.flags |= 1 << 18;
        }
        let code = [ENTER, room, 0, level];
        let place = |dice: &mut Dice| match dice.below(8) {
            0 => 0x7777_7777_7777_7777,
            1 => EDGE + dice.below(32),
            2 => ARENA + 2 * PAGE + dice.below(64),
            3 => LAST + HALF + dice.below(24),
            4 => INNER + HALF + dice.below(64),
            _ => INNER + HALF + 8 * dice.below(8),
        };
        machine.registers.gpr[4] = place(&mut duel.dice);
        machine.registers.gpr[5] = place(&mut duel.dice);
        ends[duel.agree(&code, &machine) as usize] += 1;
    }
    assert!(ends[12] > 0 && ends[14] > 0 && ends[17] > 0, "{ends:?}");
}
