//! What the engine computes is the same on every host: digests of the states in which generated
//! code ends, as they were written down.
//!
//! The code is made from a seed by the tests' own generator, for a processor of level x86-64-v3, so
//! that no compiler and no package has a part in it: every instruction form on random states, and
//! random programs. `digests/` has a line for each mnemonic and for each hundred of programs.
//! `BELLJAR_BLESS=1` writes them anew, where a definition was changed on purpose.
//!
//! The first line of each file names the makers of processors on which its digests were seen to
//! hold. On those a difference is a failure. On others it is reported, and fails with
//! `BELLJAR_STRICT=1`: a maker is added to the line once that passes there.
#![allow(missing_docs, clippy::print_stderr)]

mod bare;
mod encoding;
mod host;
mod machine;
mod program;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::Hasher;
use std::path::PathBuf;

use belljar_cpu::{InstructionSet, Level};
use belljar_sim::{Random, Seed};
use encoding::{Dice, has_memory_form, is_comparable, make};
use iced_x86::Code;
use machine::guest::Engine;
use machine::inputs::{self, inputs, is_wild};
use machine::{END, Outcome};
use program::{Generator, assemble};
use twox_hash::XxHash3_64;

/// Encodings of each form, and inputs for each encoding.
const ENCODINGS: usize = 4;
const INPUTS: usize = 6;
const PROGRAMS: u64 = 1000;
/// Programs of a line.
const EACH: u64 = 100;
/// One in so many programs also runs until it is hot.
const HOT: u64 = 25;
const HOT_RUNS: usize = 700;

fn set() -> InstructionSet {
    InstructionSet::from(Level::V3)
}

/// The maker's name, as CPUID tells it.
fn maker() -> String {
    let leaf = std::arch::x86_64::__cpuid(0);
    let words = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
    String::from_utf8_lossy(words.as_flattened()).into_owned()
}

fn add(digest: &mut XxHash3_64, outcome: &Outcome) {
    let registers = &outcome.machine.registers;
    digest.write_u8(outcome.vector);
    for word in [
        outcome.rip,
        outcome.error.unwrap_or(0),
        outcome.address.unwrap_or(0),
    ] {
        digest.write(&word.to_le_bytes());
    }
    for word in registers.gpr.iter().chain([&registers.flags]) {
        digest.write(&word.to_le_bytes());
    }
    digest.write(&registers.fx.0);
    digest.write(registers.vectors.as_flattened());
    digest.write(&outcome.machine.memory);
}

/// The digests by name, and how many states each is of.
type Digests = BTreeMap<String, (u64, u64)>;

fn digests_of_forms() -> Digests {
    let (set, mut engine) = (set(), Engine::new(&set()));
    let mut found: BTreeMap<String, (XxHash3_64, u64)> = BTreeMap::new();
    for code in Code::values().filter(|&code| is_comparable(code, &set)) {
        // Each form has its own stream: what is made of one does not change another.
        let name = format!("{code:?}");
        let stream = name
            .bytes()
            .fold(0u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        let mut dice = Dice(Random::new(Seed(stream), "digests", 0));
        let shapes: &[bool] = if has_memory_form(code) {
            &[false, true]
        } else {
            &[false]
        };
        let mnemonic = format!("{:?}", code.mnemonic()).to_lowercase();
        for &memory in shapes {
            for _ in 0..ENCODINGS {
                let Some((form, bytes)) = make(&mut dice, code, memory) else {
                    break;
                };
                engine.load(&bytes);
                for _ in 0..INPUTS {
                    let machine = inputs(&mut dice, &form);
                    if is_wild(&form) {
                        continue;
                    }
                    let (outcome, _) = engine.run(&machine, 1000);
                    let (digest, states) = found.entry(mnemonic.clone()).or_default();
                    add(digest, &outcome);
                    *states += 1;
                }
            }
        }
    }
    found
        .into_iter()
        .map(|(name, (digest, states))| (name, (digest.finish(), states)))
        .collect()
}

fn digests_of_programs() -> (Digests, u64) {
    let mut engine = Engine::new(&set());
    let generator = Generator::new(&set());
    let mut digests = Digests::new();
    let mut ended = 0;
    for first in (0..PROGRAMS).step_by(EACH as usize) {
        let mut digest = XxHash3_64::default();
        for number in first..first + EACH {
            let mut dice = Dice(Random::new(Seed(number), "digested programs", 0));
            let code = assemble(&generator.program(&mut dice));
            let machine = inputs::random(&mut dice);
            engine.load(&code);
            let (outcome, retired) = engine.run(&machine, 1000);
            ended += u64::from(outcome.vector == END);
            if number % HOT == 0 {
                for _ in 0..HOT_RUNS {
                    engine.run(&machine, 1000);
                }
                let again = engine.run(&machine, 1000);
                assert_eq!(again, (outcome.clone(), retired), "program {number}, hot");
            }
            assert_eq!(
                engine.run(&machine, 3),
                (outcome.clone(), retired),
                "program {number}"
            );
            add(&mut digest, &outcome);
            digest.write(&retired.to_le_bytes());
        }
        digests.insert(format!("{first:04}"), (digest.finish(), EACH));
    }
    (digests, ended)
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/digests")
        .join(name)
}

fn written(digests: &Digests) -> String {
    let lines = digests
        .iter()
        .map(|(name, (digest, states))| format!("{name} {states} {digest:016x}\n"));
    lines.collect()
}

/// Compares with what stands in the file of this name.
fn compare(name: &str, digests: &Digests) {
    let (path, maker) = (file(name), maker());
    let text = written(digests);
    if std::env::var_os("BELLJAR_BLESS").is_some() {
        std::fs::write(path, format!("# {maker}\n{text}")).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let (makers, expected) = expected.split_once('\n').unwrap_or_default();
    let mut complaints = String::new();
    for (found, expected) in text.lines().zip(expected.lines()) {
        if found != expected {
            let _ = writeln!(complaints, "  {found}, and not {expected}");
        }
    }
    if text.lines().count() != expected.lines().count() {
        let _ = writeln!(complaints, "  the corpus has other lines");
    }
    if complaints.is_empty() {
        eprintln!(
            "{name}: {} digests hold on this processor by {maker}",
            digests.len()
        );
        return;
    }
    let count = complaints.lines().count();
    let message =
        format!("{name}: {count} digests differ on this processor by {maker}:\n{complaints}");
    let seen = makers.split_whitespace().any(|known| known == maker);
    if seen || std::env::var_os("BELLJAR_STRICT").is_some() {
        panic!("{message}");
    }
    eprintln!("REPORTED, as {maker} is not among those on which they were seen to hold: {message}");
}

#[test]
fn every_form_ends_as_it_is_written_down() {
    let digests = digests_of_forms();
    assert!(digests.len() > 500, "only {} mnemonics", digests.len());
    compare("forms.txt", &digests);
}

#[test]
fn programs_end_as_it_is_written_down() {
    let (digests, ended) = digests_of_programs();
    assert!(
        ended > PROGRAMS / 4,
        "only {ended} programs came to their end"
    );
    compare("programs.txt", &digests);
}
