//! Random programs compared with the host's processor. They have 5 to 60 instructions of all
//! user-level forms with their memory operands, branches and faults. They run natively, and in the
//! engine as whole blocks and stopped each 7 and each 211 instructions; some of them again when
//! their code is hot.
//!
//! `BELLJAR_SEED` selects other programs, `BELLJAR_PROGRAMS` their number. A program with
//! differences is minimised to as few pieces as possible, and printed as assembly and as a row for
//! [`ROWS`]. `fuzz` runs for `BELLJAR_SECONDS`.
#![allow(missing_docs, clippy::print_stderr)]

use std::fmt::Write;
use std::sync::Mutex;

use belljar_exact_testing::encoding::Dice;
use belljar_exact_testing::host::{host_set, number};
use belljar_exact_testing::machine::guest::Engine;
use belljar_exact_testing::machine::makers::{Maker, settle};
use belljar_exact_testing::machine::open::{open_flags, settle_order};
use belljar_exact_testing::machine::{CODE_AT, END, inputs};
use belljar_exact_testing::native::Native;
use belljar_exact_testing::program::{Generator, Piece, assemble};
use belljar_sim::{Random, Seed};
use iced_x86::{Decoder, FlowControl, Formatter, IntelFormatter, Mnemonic};

/// Number of programs in the bounded run.
const PROGRAMS: u64 = 6000;
/// Instructions between stops.
const STEPS: [u64; 3] = [100_000, 7, 211];

/// One in this many programs is run until its code is hot, and compared again.
const HOT_PROGRAMS: u64 = 16;
/// Number of runs that make code hot.
const HOT_RUNS: u64 = 1300;

/// Former differences: the machine's seed and the program's bytes.
const ROWS: &[(u64, &[u8])] = &[
    // Some flags, but not all, are dead where an aligned load faults.
    (
        4_294_970_905,
        &[
            0x49, 0xbf, 0xc8, 0x10, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x49, 0xff, 0x87, 0x80,
            0xff, 0xff, 0xff, 0x49, 0xb8, 0x5b, 0x10, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x62,
            0x52, 0x7d, 0x08, 0x2a, 0x28, 0x41, 0xc1, 0xff, 0xff,
        ],
    ),
    // A rotate through the carry by a full round leaves the flags.
    (
        330_712_774_250,
        &[
            0x49, 0xb9, 0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x49, 0xbe, 0x08, 0xfa,
            0xff, 0x0f, 0x00, 0x00, 0x00, 0x00, 0x62, 0x03, 0xdd, 0x18, 0x54, 0xa4, 0x8e, 0x00,
            0x10, 0x00, 0x00, 0xef, 0x49, 0xbf, 0xe0, 0x0f, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00,
            0x62, 0xc2, 0xfd, 0xad, 0x5a, 0xa7, 0xe0, 0xff, 0xff, 0xff, 0x48, 0xbb, 0x80, 0x0f,
            0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0xc0, 0x13, 0xdb, 0x49, 0x0f, 0xba, 0xfd, 0x00,
        ],
    ),
    // The element's source crosses into an unmapped page, and its target is unmapped as well.
    (
        330_712_955_223,
        &[
            0x48, 0xbe, 0xfd, 0x1f, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x48, 0xbf, 0x3d, 0x20,
            0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x48, 0xb9, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0xf2, 0xa5,
        ],
    ),
];

/// One test at a time, because they share the arena's addresses.
static TURN: Mutex<()> = Mutex::new(());

struct Duel {
    native: Native,
    engine: Engine,
    ended: u64,
}

impl Duel {
    fn new() -> Self {
        // First its signal handlers: the engine passes on signals that are not its own.
        let native = Native::new();
        Self {
            native,
            engine: Engine::with_host_results(&host_set()),
            ended: 0,
        }
    }

    /// The differences when `code` runs on the machine of `seed`; with `hot`, also after many runs.
    fn difference(&mut self, code: &[u8], seed: u64, hot: bool) -> Option<String> {
        let machine = inputs::random(&mut Dice(Random::new(Seed(seed), "machine", 0)));
        self.native.load(code);
        self.engine.load(code);
        let expected = self.native.run(&machine, code.len());
        self.ended += u64::from(expected.vector == END);
        let far = seed % 2 == 1 && !names_its_place(code);
        let mut run = |step| {
            if far {
                self.engine.run_far(&machine, step)
            } else {
                self.engine.run(&machine, step)
            }
        };
        let open = open_flags(code, &expected);
        let mut counts = Vec::new();
        let mut flags = Vec::new();
        for round in 0..if hot { 2 * STEPS.len() } else { STEPS.len() } {
            if round == STEPS.len() {
                for _ in 0..HOT_RUNS {
                    run(STEPS[0]);
                }
            }
            let step = STEPS[round % STEPS.len()];
            let (mut found, retired) = run(step);
            settle_order(code, &mut found, &expected);
            settle(Maker::of_host(), code, None, &mut found, &expected);
            let differences = found.differences(&expected, open);
            if !differences.is_empty() {
                return Some(format!(
                    "round {round}, stopped each {step} instructions, exception {}:\n{differences}",
                    expected.vector
                ));
            }
            counts.push(retired);
            flags.push(found.machine.registers.flags);
        }
        if flags.iter().any(|&one| one != flags[0]) {
            return Some(format!("flags, by stops: {flags:#x?}\n"));
        }
        (counts.iter().any(|&count| count != counts[0]))
            .then(|| format!("instructions retired, by stops: {counts:?}\n"))
    }

    /// As few pieces as possible that still differ.
    fn minimise(&mut self, mut pieces: Vec<Piece>, seed: u64, hot: bool) -> Vec<Piece> {
        let mut chunk = pieces.len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < pieces.len() {
                let mut fewer = pieces.clone();
                fewer.drain(at..(at + chunk).min(pieces.len()));
                if self.difference(&assemble(&fewer), seed, hot).is_some() {
                    pieces = fewer;
                } else {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
        pieces
    }

    fn describe(&mut self, pieces: Vec<Piece>, seed: u64, hot: bool) -> String {
        let pieces = self.minimise(pieces, seed, hot);
        let code = assemble(&pieces);
        let difference = self.difference(&code, seed, hot).unwrap_or_default();
        let mut text = format!("{difference}{}", disassemble(&code));
        let bytes: Vec<String> = code.iter().map(|byte| format!("{byte:#04x}")).collect();
        let _ = writeln!(text, "row:\n    ({seed}, &[{}]),", bytes.join(", "));
        text
    }
}

/// True if `code` can observe its own address.
fn names_its_place(code: &[u8]) -> bool {
    let mut instructions = Decoder::with_ip(64, code, CODE_AT, 0).into_iter();
    instructions.any(|one| {
        let calls = matches!(
            one.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        );
        let computes = one.mnemonic() == Mnemonic::Lea && one.is_ip_rel_memory_operand();
        calls || computes || one.mnemonic() == Mnemonic::Syscall
    })
}

fn disassemble(code: &[u8]) -> String {
    let mut text = String::new();
    let mut formatter = IntelFormatter::new();
    for instruction in Decoder::with_ip(64, code, CODE_AT, 0).iter() {
        let mut line = String::new();
        formatter.format(&instruction, &mut line);
        let start = (instruction.ip() - CODE_AT) as usize;
        let bytes = &code[start..start + instruction.len()];
        let _ = writeln!(text, "  {:#x}  {line:<48} {bytes:02x?}", instruction.ip());
    }
    text
}

/// Runs programs until `more` returns false; returns at most ten differences.
fn run(first: u64, mut more: impl FnMut(u64) -> bool) -> Vec<String> {
    let generator = Generator::new(&host_set());
    let mut duel = Duel::new();
    let mut complaints = Vec::new();
    let mut programs = 0;
    while more(programs) && complaints.len() < 10 {
        let seed = first.wrapping_mul(1 << 32).wrapping_add(programs);
        let mut dice = Dice(Random::new(Seed(seed), "program", 0));
        let pieces = generator.program(&mut dice);
        let hot = programs % HOT_PROGRAMS == 0;
        if duel.difference(&assemble(&pieces), seed, hot).is_some() {
            complaints.push(duel.describe(pieces, seed, hot));
            eprintln!("{}", complaints[complaints.len() - 1]);
        }
        programs += 1;
    }
    eprintln!("{programs} programs, {} of them to their end", duel.ended);
    complaints
}

#[test]
fn random_programs_agree_with_the_host() {
    let _turn = TURN.lock();
    let programs = number("BELLJAR_PROGRAMS").unwrap_or(PROGRAMS);
    let complaints = run(number("BELLJAR_SEED").unwrap_or(1), |done| done < programs);
    assert!(
        complaints.is_empty(),
        "{} programs differ",
        complaints.len()
    );
}

#[test]
fn what_once_differed_agrees() {
    let _turn = TURN.lock();
    let mut duel = Duel::new();
    for &(seed, code) in ROWS {
        let difference = duel.difference(code, seed, true);
        assert_eq!(difference, None, "\n{}", disassemble(code));
    }
}

/// Runs for the requested time; called by `cargo xtask fuzz engine`.
#[test]
#[ignore = "runs for BELLJAR_SECONDS"]
#[allow(clippy::disallowed_methods)] // how long a person wants to wait is host time
fn fuzz() {
    let _turn = TURN.lock();
    let seconds = number("BELLJAR_SECONDS").unwrap_or(60);
    let start = std::time::Instant::now();
    let seed = number("BELLJAR_SEED").unwrap_or(2);
    let complaints = run(seed, |_| start.elapsed().as_secs() < seconds);
    assert!(
        complaints.is_empty(),
        "{} programs differ",
        complaints.len()
    );
}
