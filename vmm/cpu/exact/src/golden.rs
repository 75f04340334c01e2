//! Golden listings: the host code of sample blocks, compared with text files.
//!
//! A change of the emitter appears here as a readable difference. `BELLJAR_BLESS=1 cargo test -p
//! belljar-exact golden` rewrites the files.

#![allow(clippy::print_stderr)]

/// A guest without a kernel: flat 64-bit code over identity-mapped pages.
#[allow(dead_code, missing_docs, unreachable_pub)]
#[path = "../testing/src/bare.rs"]
mod bare;
/// Host code as text that does not depend on addresses.
mod listing;
/// Sizes and digests of all forms' host code.
mod pinned;
/// The samples: short blocks that are typical of guests.
mod samples;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use belljar_cpu::{Exit, InstructionSet, Level, Registers, Vcpu};
use belljar_translate::guest::decode::{Decoded, GuestBlock, MAX_INSTRUCTIONS, decode};
use belljar_translate::guest::features::Features;
use belljar_translate::guest::groups::Scattered;
use belljar_translate::guest::mode::{Mode, Pace};
use belljar_translate::guest::rename::{choose, rename};
use belljar_translate::guest::size::{CodeSize, Nulls};
use belljar_translate::host::emit::{Emitter, Tier};
use belljar_translate::host::shared::{Counter, SharedCode};

use crate::processor::host::host_requirements;
use listing::Listing;
use samples::{CodeSample, FILES};

/// Addresses of shared code and of the block.
const SHARED: SharedCode = SharedCode {
    leave: 0x10_0000,
    leave_kept: 0x10_0020,
    train: [0x10_0028, 0x10_002c],
    unknown: 0x10_0180,
    lookup: [0x10_0100, 0x10_0140],
    enter: 0x10_0200,
    apart: [0x10_0240, 0x10_0280],
    counter: Counter::Xmm31,
};
const BASE: u64 = 0x20_0000;
/// Number of instructions that make a sample hot.
const HOT: u64 = 100_000;

/// All features, enabled.
fn features(size: CodeSize) -> Features {
    let features = Features::new(&InstructionSet::from(Level::V4));
    Features {
        size,
        ..features.under(0x8005_0033, 0x4_06b0, 0xe7)
    }
}

fn mode(sample: &CodeSample) -> Mode {
    Mode {
        user: sample.user,
        fpu: true,
        pace: Pace::Full,
        free_stubs: true,
        size: sample.size,
        nulls: Nulls::NONE,
        skew: 0,
        features: 0,
        relative: sample.relative,
        apart: sample.counter == Counter::Mm7,
    }
}

/// The engine's trace of a sample that ran often; `None` if the host cannot run it.
fn trace(sample: &CodeSample) -> Option<GuestBlock> {
    let set = InstructionSet::from(sample.level);
    if host_requirements(&set).is_err() {
        return None;
    }
    let mut guest = bare::Guest::with_set(&set);
    guest.write(bare::CODE, &sample.bytes());
    let mut registers = Registers {
        rip: bare::CODE,
        rflags: 2,
        ..Registers::default()
    };
    registers.gpr[4] = bare::STACK;
    registers.gpr[6] = bare::DATA;
    registers.gpr[7] = bare::DATA + 0x4000;
    registers.gpr[8] = bare::DATA + 0x8000;
    guest.vcpu.set_registers(&registers);
    assert_eq!(guest.run(HOT), Exit::Deadline, "{} ends", sample.name);
    let vcpu = &mut guest.vcpu;
    let rip = bare::CODE + sample.head;
    let mode = Mode {
        user: false,
        ..mode(sample)
    };
    let mut trace = vcpu
        .trace(rip, rip, mode)
        .unwrap_or_else(|| panic!("{} has no trace", sample.name));
    trace.renamed = choose(&trace.instructions);
    if let Some(pairs) = trace.renamed {
        rename(&mut trace.instructions, pairs);
    }
    Some(trace)
}

fn plain(sample: &CodeSample) -> GuestBlock {
    let (bytes, features) = (sample.bytes(), features(sample.size));
    match decode(sample.rip(), &bytes, MAX_INSTRUCTIONS, &features) {
        Decoded::Block(block) => block,
        Decoded::Crosses => panic!("{} is cut short", sample.name),
    }
}

/// The sample's host code as text; `None` if this host cannot make it hot.
fn translated(sample: &CodeSample) -> Option<String> {
    let scattered = BTreeSet::new();
    let (block, tier) = if sample.hot {
        let tier = Tier::Hot {
            path: None,
            first_slot: 0,
            scattered: Scattered {
                instructions: &scattered,
                from: 0,
            },
        };
        (trace(sample)?, tier)
    } else {
        (plain(sample), Tier::Plain((!sample.free).then_some(0)))
    };
    let shared = SharedCode {
        counter: sample.counter,
        ..SHARED
    };
    let mut emitter = Emitter::new(shared);
    let emitted = emitter.emit(&block, mode(sample), sample.free, tier, BASE, (0, 0));
    let listing = Listing {
        block: &block,
        emitted: &emitted,
        code: emitter.code(),
        shared,
    };
    Some(format!("== {} ==\n{}", sample.name, listing.text()))
}

/// Compares samples with their file, or writes it.
fn compare(file: &str, samples: &[CodeSample]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/{file}.txt"));
    let mut text = String::new();
    for sample in samples {
        let Some(one) = translated(sample) else {
            eprintln!(
                "SKIPPED: golden/{file}.txt: the host cannot run {}",
                sample.name
            );
            return;
        };
        let _ = writeln!(text, "{one}");
    }
    if std::env::var_os("BELLJAR_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = text
        .lines()
        .zip(expected.lines())
        .position(|(found, expected)| found != expected)
        .or((text.lines().count() != expected.lines().count()).then_some(usize::MAX));
    if let Some(line) = differs {
        let around = |text: &str| -> String {
            let lines = text.lines().skip(line.saturating_sub(6)).take(14);
            lines.map(|line| format!("    {line}\n")).collect()
        };
        panic!(
            "{} differs at line {}; BELLJAR_BLESS=1 rewrites it\n  now\n{}  in the file\n{}",
            path.display(),
            line.wrapping_add(1),
            around(&text),
            around(&expected)
        );
    }
}

#[test]
fn host_code_of_the_samples_is_as_written_down() {
    let mut samples = 0;
    for (file, make) in FILES {
        let made = make();
        samples += made.len();
        compare(file, &made);
    }
    assert!(samples >= 64, "only {samples} samples");
}

#[test]
fn a_translation_is_the_same_each_time() {
    for (_, make) in FILES {
        for sample in make() {
            assert_eq!(translated(&sample), translated(&sample), "{}", sample.name);
        }
    }
}
