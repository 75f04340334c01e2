//! Every instruction form of this host's highest level, compared with its processor.
//!
//! For each of iced's codes a number of encodings is made (registers, high bytes, memory operands
//! of all shapes, masks, broadcasts, roundings), and each is run in user mode on random registers,
//! flags, vectors, masks and memory, natively and in the engine. All of these must agree: general
//! registers, flags, memory, x87, vectors, masks and MXCSR, and an exception's vector, RIP and
//! address.
//!
//! `BELLJAR_SEED` selects other cases, `BELLJAR_EFFORT` multiplies their number.
#![allow(missing_docs, clippy::print_stderr)]

use belljar_exact_testing::encoding::{Dice, Form, has_memory_form, is_comparable, make};
use belljar_exact_testing::host::{host_set, number};
use belljar_exact_testing::machine::defined::{is_defined, settle_defined};
use belljar_exact_testing::machine::guest::Engine;
use belljar_exact_testing::machine::inputs::{inputs, is_wild, undefined_flags};
use belljar_exact_testing::machine::makers::{Maker, settle};
use belljar_exact_testing::machine::open::{open_flags, settle_order};
use belljar_exact_testing::machine::{END, Machine, Outcome};
use belljar_exact_testing::native::Native;
use belljar_sim::{Random, Seed};
use iced_x86::{Code, Mnemonic as M};
use std::ops::Range;

/// Encodings of each form, and inputs for each encoding.
const ENCODINGS: usize = 12;
const INPUTS: u64 = 24;

struct Bench {
    /// With the host's approximations and undefined flags, and with the engine's own.
    engine: Engine,
    own: Engine,
    native: Native,
    dice: Dice,
    maker: Maker,
    inputs: u64,
    cases: u64,
    faults: u64,
    complaints: Vec<String>,
}

impl Bench {
    fn check(&mut self, form: &Form, bytes: &[u8]) {
        self.engine.load(bytes);
        self.own.load(bytes);
        self.native.load(bytes);
        for _ in 0..self.inputs {
            let machine = inputs(&mut self.dice, form);
            let expected = self.native.run(&machine, bytes.len());
            self.cases += 1;
            self.faults += u64::from(expected.vector != END);
            let (found, _) = self.engine.run(&machine, 1000);
            if !self.agree(form, bytes, &machine, expected.clone(), found) {
                return;
            }
            if !is_defined(&form.instruction) {
                continue;
            }
            let mut expected = expected;
            let (mut found, _) = self.own.run(&machine, 1000);
            settle_defined(&form.instruction, &machine, &mut found, &mut expected);
            if !self.agree(form, bytes, &machine, expected, found) {
                return;
            }
        }
    }

    /// True if both outcomes are equal, except for permitted differences; otherwise reports them.
    fn agree(
        &mut self,
        form: &Form,
        bytes: &[u8],
        machine: &Machine,
        mut expected: Outcome,
        mut found: Outcome,
    ) -> bool {
        excuse(form, machine, &mut expected, &mut found);
        settle_order(bytes, &mut found, &expected);
        settle(self.maker, bytes, Some(machine), &mut found, &expected);
        let differences = found.differences(&expected, open_flags(bytes, &expected));
        if !differences.is_empty() {
            self.complaints.push(format!(
                "{} ({:?}) {bytes:02x?}, exception {} at {:x?}\n{differences}",
                form.instruction,
                form.instruction.code(),
                expected.vector,
                expected.address,
            ));
        }
        differences.is_empty()
    }
}

/// Equalises permitted differences.
fn excuse(form: &Form, start: &Machine, expected: &mut Outcome, found: &mut Outcome) {
    let flags = undefined_flags(form);
    for outcome in [&mut *expected, &mut *found] {
        outcome.machine.registers.flags &= !flags;
        for places in pointer_places(form) {
            let first = address(form, start).wrapping_add(places.start);
            outcome.machine.clear(first, places.end - places.start);
        }
    }
    // AMD's processors have an additional bit in MXCSR.
    if expected.machine.registers.mxcsr() & 1 << 17 != 0 && found.vector == 13 {
        *expected = found.clone();
    }
    // Makers differ in the order of alignment and paging checks.
    if expected.vector == 17 && found.vector == 14 && expected.rip == found.rip {
        *expected = found.clone();
    }
    // The order in which bytes of a large structure are accessed is unspecified.
    if form.instruction.memory_size().size() > 10 && found.vector == 14 && is_x87_state(form) {
        expected.address = found.address;
        expected.error = found.error;
    }
    // The checks of a masked store beyond its stored bytes are unspecified.
    let name = form.instruction.mnemonic();
    let masked = matches!(name, M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu);
    if masked && matches!(expected.vector, 13 | 14) {
        *expected = found.clone();
    }
    // A faulting gather may have completed lanes after the faulting one.
    let gathers = form.vector_index.is_some();
    if gathers && expected.vector != END && found.vector == expected.vector {
        expected.machine = found.machine.clone();
    }
}

/// The offsets of pointers and reserved fields in a saved x87 state.
fn pointer_places(form: &Form) -> Vec<Range<u64>> {
    let size = form.instruction.memory_size().size();
    match form.instruction.mnemonic() {
        M::Fnstenv | M::Fnsave if matches!(size, 14 | 94) => std::iter::once(6..14).collect(),
        M::Fnstenv | M::Fnsave => vec![2..4, 6..8, 10..28],
        M::Fxsave | M::Fxsave64 => (0..8)
            .map(|register| 42 + register * 16..48 + register * 16)
            .chain([5..24, 28..32, 416..512])
            .collect(),
        _ => Vec::new(),
    }
}

fn is_x87_state(form: &Form) -> bool {
    matches!(
        form.instruction.mnemonic(),
        M::Fnstenv | M::Fnsave | M::Fldenv | M::Frstor
    ) || matches!(
        form.instruction.mnemonic(),
        M::Fxsave | M::Fxsave64 | M::Fxrstor | M::Fxrstor64
    )
}

fn address(form: &Form, start: &Machine) -> u64 {
    let gpr = &start.registers.gpr;
    let scale = u64::from(form.instruction.memory_index_scale());
    let index = form.index.map_or(0, |index| gpr[index].wrapping_mul(scale));
    let base = form.base.map_or(0, |base| gpr[base]);
    base.wrapping_add(index)
        .wrapping_add(form.instruction.memory_displacement64())
}

#[test]
fn every_form_agrees_with_the_host() {
    let set = host_set();
    eprintln!("against this host as {set}");
    let seed = number("BELLJAR_SEED").unwrap_or(1);
    // First its signal handlers: the engine passes on signals that are not its own.
    let native = Native::new();
    let mut bench = Bench {
        engine: Engine::with_host_results(&set),
        own: Engine::new(&set),
        native,
        maker: Maker::of_host(),
        dice: Dice(Random::new(Seed(seed), "forms", 0)),
        inputs: INPUTS * number("BELLJAR_EFFORT").unwrap_or(1),
        cases: 0,
        faults: 0,
        complaints: Vec::new(),
    };
    let mut forms = 0;
    let mut unmade = Vec::new();
    let only = std::env::var("BELLJAR_ONLY").unwrap_or_default();
    for code in Code::values()
        .filter(|&code| is_comparable(code, &set))
        .filter(|code| format!("{code:?}").contains(&only))
    {
        let shapes: &[bool] = if has_memory_form(code) {
            &[false, true]
        } else {
            &[false]
        };
        for &memory in shapes {
            let mut made = 0;
            for _ in 0..ENCODINGS {
                let Some((form, bytes)) = make(&mut bench.dice, code, memory) else {
                    break;
                };
                made += 1;
                if !is_wild(&form) {
                    bench.check(&form, &bytes);
                }
            }
            if made == 0 {
                unmade.push(code);
            } else {
                forms += 1;
            }
        }
    }
    eprintln!(
        "{forms} forms, {} cases, {} of them with exceptions; not made: {unmade:?}",
        bench.cases, bench.faults
    );
    let complaints = &bench.complaints;
    assert!(
        complaints.is_empty(),
        "{} encodings differ:\n{}",
        complaints.len(),
        complaints[..complaints.len().min(4000)].join("\n")
    );
    assert!(
        only.is_empty() && forms > 900 || !only.is_empty(),
        "only {forms} forms were made"
    );
}
