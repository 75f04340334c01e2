//! The size and the digest of the host code of every instruction form, and of random programs.
//!
//! Listings show a few samples in full; these files show the rest: a row for each mnemonic and level of guests, and one for each ten programs of `PROGRAMS`. The
//! digest is of listings, so it does not depend on addresses. A slower translation is thus a difference in bytes, without any measurement of time. The code is the same on
//! all hosts of a level: rows of guests with AVX-512 are compared on hosts with AVX-512.
//! `BELLJAR_BLESS=1 cargo test -p belljar-exact golden` rewrites the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use belljar_cpu::{InstructionSet, Level};
use belljar_exact_testing::encoding::{Dice, has_memory_form, is_comparable, make};
use belljar_exact_testing::program::{Generator, assemble};
use belljar_sim::{Random, Seed};
use belljar_translate::context::LineFilter;
use belljar_translate::guest::decode::{Decoded, GuestBlock, MAX_INSTRUCTIONS, decode};
use belljar_translate::guest::features::Features;
use belljar_translate::guest::mode::{Mode, Pace};
use belljar_translate::guest::size::{CodeSize, Nulls};
use belljar_translate::host::emit::{Emitter, Tier};
use belljar_translate::host::shared::{Character, Counter, SharedCode};
use belljar_translate::prices::classes::Prices;
use belljar_translate::prices::timing::{Costs, TICKS_PER_CYCLE};
use iced_x86::Code;

use super::bare::CODE;
use super::listing::Listing;
use super::{BASE, SHARED};

/// Programs of each level, and of each row.
const PROGRAMS: u64 = 100;
const EACH: u64 = 10;

/// Levels of guests that this host can have, with their names in the files.
fn levels() -> Vec<(Level, &'static str)> {
    let mut levels = vec![(Level::V2, "v2"), (Level::V3, "v3"), (Level::V4, "v4")];
    if !is_x86_feature_detected!("avx512f") {
        eprintln!("SKIPPED: rows of v4: the host has no AVX-512");
        levels.pop();
    }
    levels
}

/// Host code of one row.
#[derive(Default)]
struct PinnedRow {
    /// Encodings, or programs.
    parts: usize,
    /// Guest instructions.
    instructions: usize,
    /// Bytes of host code, without and with a time model.
    bytes: [i64; 2],
    digest: crc32fast::Hasher,
}

impl PinnedRow {
    fn text(&self) -> String {
        let [plain, timed] = self.bytes;
        let digest = self.digest.clone().finalize();
        let (parts, instructions) = (self.parts, self.instructions);
        format!("{parts} {instructions} {plain} {timed} {digest:08x}")
    }
}

/// Translates for guests of a level, without and with a time model, which has costs and caches.
struct Pinner {
    features: Features,
    emitters: [Emitter; 2],
    shared: SharedCode,
}

impl Pinner {
    fn new(level: Level) -> Self {
        let features = Features::new(&InstructionSet::from(level));
        let shared = SharedCode {
            // A guest with AVX-512 uses XMM31 itself.
            counter: match level {
                Level::V4 => Counter::Memory,
                _ => Counter::Xmm31,
            },
            ..SHARED
        };
        let emitter = |prices| {
            let character = Character {
                counter: shared.counter,
                prices,
                follows_path: false,
                host_results: false,
            };
            Emitter::of(&character, shared)
        };
        let mut timed = emitter(Some(Prices::new(&Costs::uniform(TICKS_PER_CYCLE))));
        timed.check_lines(LineFilter::Narrow);
        Self {
            features: features.under(0x8005_0033, 0x4_06b0, 0xe7),
            emitters: [emitter(None), timed],
            shared,
        }
    }

    /// Adds the blocks of straight guest code to a row. `less` bytes of each block are not counted.
    fn add(&mut self, row: &mut PinnedRow, code: &[u8], less: [i64; 2]) {
        row.parts += 1;
        let mut rest = code;
        while !rest.is_empty() {
            let rip = CODE + (code.len() - rest.len()) as u64;
            let Decoded::Block(block) = decode(rip, rest, MAX_INSTRUCTIONS, &self.features) else {
                panic!("{code:x?} is cut short");
            };
            row.instructions += block.instructions.len();
            for (number, less) in less.into_iter().enumerate() {
                let (bytes, text) = self.block(number, &block);
                row.bytes[number] += bytes - less;
                row.digest.update(text.as_bytes());
            }
            rest = &rest[(block.bytes.1 - rip) as usize..];
        }
    }

    /// A block's host code: its bytes, and its listing.
    fn block(&mut self, number: usize, block: &GuestBlock) -> (i64, String) {
        let mode = Mode {
            user: true,
            fpu: true,
            pace: Pace::Full,
            free_stubs: true,
            size: CodeSize::Long,
            nulls: Nulls::NONE,
            skew: 0,
            features: 0,
            relative: false,
            apart: false,
        };
        let emitter = &mut self.emitters[number];
        let emitted = emitter.emit(block, mode, false, Tier::Plain(Some(0)), BASE, (0, 0));
        let listing = Listing {
            block,
            emitted: &emitted,
            code: emitter.code(),
            shared: self.shared,
        };
        (emitter.code().len() as i64, listing.text())
    }
}

/// Rows by level and mnemonic: each form that the level adds, on registers and on memory.
fn forms() -> BTreeMap<String, PinnedRow> {
    let mut rows: BTreeMap<String, PinnedRow> = BTreeMap::new();
    let mut below: Option<InstructionSet> = None;
    for (level, name) in levels() {
        let mut pinner = Pinner::new(level);
        let mut nop = PinnedRow::default();
        pinner.add(&mut nop, &[0x90], [0, 0]);
        let set = InstructionSet::from(level);
        for code in Code::values().filter(|code| is_comparable(*code, &set)) {
            if below
                .as_ref()
                .is_some_and(|below| is_comparable(code, below))
            {
                continue;
            }
            let shapes: &[bool] = match has_memory_form(code) {
                true => &[false, true],
                false => &[false],
            };
            let stream = crc32fast::hash(format!("{code:?}").as_bytes());
            let mut dice = Dice(Random::new(Seed(stream.into()), "pinned forms", 0));
            for memory in shapes {
                let Some((_, bytes)) = make(&mut dice, code, *memory) else {
                    continue;
                };
                let mnemonic = format!("{:?}", code.mnemonic()).to_lowercase();
                let row = rows.entry(format!("{name} {mnemonic}")).or_default();
                pinner.add(row, &bytes, nop.bytes);
            }
        }
        below = Some(set);
    }
    rows
}

/// Rows by level and number of the first program.
fn programs() -> BTreeMap<String, PinnedRow> {
    let mut rows: BTreeMap<String, PinnedRow> = BTreeMap::new();
    for (level, name) in levels() {
        let mut pinner = Pinner::new(level);
        let generator = Generator::new(&InstructionSet::from(level));
        for number in 0..PROGRAMS {
            let mut dice = Dice(Random::new(Seed(number), "pinned programs", 0));
            let code = assemble(&generator.program(&mut dice));
            let row = rows.entry(format!("{name} {:03}", number - number % EACH));
            pinner.add(row.or_default(), &code, [0, 0]);
        }
    }
    rows
}

/// Compares rows with their file, or writes it.
fn compare(file: &str, meaning: &str, rows: &BTreeMap<String, PinnedRow>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/{file}.txt"));
    let heading = format!(
        "# level, {meaning}, guest instructions, bytes of host code, the same with a time model, digest\n"
    );
    let text = rows.iter().fold(heading, |mut text, (name, row)| {
        let _ = writeln!(text, "{name} {}", row.text());
        text
    });
    let levels = levels();
    if std::env::var_os("BELLJAR_BLESS").is_some() {
        assert_eq!(levels.len(), 3, "the file needs a host with AVX-512");
        std::fs::write(&path, text).unwrap();
        return;
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    let here = |line: &&str| levels.iter().any(|(_, name)| line.starts_with(name));
    let recorded: Vec<&str> = recorded.lines().filter(here).collect();
    let recorded = recorded.join("\n");
    let differences = differences(&recorded, &text);
    assert!(
        differences.is_empty(),
        "{} rows of {} differ. If the change is intended: BELLJAR_BLESS=1 cargo test -p belljar-exact golden\n{}",
        differences.len() - 1,
        path.display(),
        differences.join("\n")
    );
}

/// Describes the rows that differ, and the sum of all; empty if none does.
fn differences(recorded: &str, found: &str) -> Vec<String> {
    let (old, new) = (parsed(recorded), parsed(found));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        let change = match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(old), Some(new)) => change(old, new),
            (None, Some(_)) => "is new".to_owned(),
            _ => "is gone".to_owned(),
        };
        differences.push(format!("  {name}: {change}"));
    }
    if !differences.is_empty() {
        let all = |rows: &BTreeMap<String, RecordedRow>| {
            let add = |sum: RecordedRow, row: &RecordedRow| RecordedRow {
                instructions: sum.instructions + row.instructions,
                bytes: [0, 1].map(|at| sum.bytes[at] + row.bytes[at]),
                digest: String::new(),
            };
            rows.values().fold(RecordedRow::default(), add)
        };
        differences.push(format!("  all rows: {}", change(&all(&old), &all(&new))));
    }
    differences
}

/// A row of a file.
#[derive(Debug, Default, PartialEq)]
struct RecordedRow {
    instructions: i64,
    bytes: [i64; 2],
    digest: String,
}

/// Rows of a file by level and name.
fn parsed(text: &str) -> BTreeMap<String, RecordedRow> {
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [level, name, _, instructions, plain, timed, digest] = words[..] else {
            return None;
        };
        let row = RecordedRow {
            instructions: instructions.parse().ok()?,
            bytes: [plain.parse().ok()?, timed.parse().ok()?],
            digest: digest.to_owned(),
        };
        Some((format!("{level} {name}"), row))
    });
    rows.collect()
}

/// Bytes of two versions of a row, and the difference for each guest instruction.
fn change(old: &RecordedRow, new: &RecordedRow) -> String {
    let instructions = new.instructions.max(1) as f64;
    let [plain, timed] = [0, 1].map(|at| {
        let more = (new.bytes[at] - old.bytes[at]) as f64 / instructions;
        format!(
            "{} -> {} bytes ({more:+.2} an instruction)",
            old.bytes[at], new.bytes[at]
        )
    });
    format!("{plain}; with a time model {timed}")
}

#[test]
fn host_code_of_all_forms_is_as_pinned() {
    let rows = forms();
    assert!(rows.len() > 500, "only {} rows", rows.len());
    compare("pinned-forms", "mnemonic, encodings", &rows);
}

#[test]
fn host_code_of_random_programs_is_as_pinned() {
    let rows = programs();
    compare("pinned-programs", "first program, programs", &rows);
}

#[test]
fn differences_are_bytes_of_each_instruction() {
    let old =
        "# heading\nv2 add 4 4 100 120 11111111\nv2 sub 4 4 100 120 22222222\nv2 or 1 1 9 9 3\n";
    assert!(differences(old, old).is_empty());
    let new = "v2 add 4 4 108 120 11111112\nv2 sub 4 4 100 120 22222222\nv2 xor 1 1 9 9 4\n";
    let expected = [
        "  v2 add: 100 -> 108 bytes (+2.00 an instruction); with a time model 120 -> 120 bytes (+0.00 an instruction)",
        "  v2 or: is gone",
        "  v2 xor: is new",
        "  all rows: 209 -> 217 bytes (+0.89 an instruction); with a time model 249 -> 249 bytes (+0.00 an instruction)",
    ];
    assert_eq!(differences(old, new), expected);
}
