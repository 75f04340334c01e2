//! The engine's benchmark programs, stopped repeatedly.
//!
//! Each is the same static program as in the benchmark, with less work, in user mode of a bare guest.
//! It runs unstopped, stopped about each 2,400 and each 211 instructions, and stopped each 10,007 by
//! a vCPU of another level, whose translated code counts elsewhere. All four end with the same
//! registers, memory and number of instructions, and the same output as on the host. The same holds
//! for the program compiled as position-independent, beyond 4 GiB, where user code is translated
//! relative to its page. `BELLJAR_EFFORT=N` gives them N times as much work, up to eight.
#![allow(clippy::print_stderr)]

use belljar_exact_testing::bare;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use belljar_cpu::{InstructionSet, Level, StateItem};
use belljar_exact::host_requirements;
use belljar_exact_testing::host::number;
use belljar_exact_testing::process::{Ended, Process};

const KERNELS: &str = "../../../images/programs/kernels.c";
const CROSSING: &str = "tests/programs/crossing.c";
/// A multiple of both steps.
const BOTH: u64 = 211 * 10_007;
/// The factor by which there is less work than in the benchmark.
const SHRINK: u64 = 8;

fn shrink() -> u64 {
    (SHRINK / number("BELLJAR_EFFORT").unwrap_or(1)).max(1)
}

/// The address of a program.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The address that it was linked for.
    Own,
    /// Beyond 4 GiB, where user code is translated relative to its page.
    Any,
}

const PLACES: [Place; 2] = [Place::Own, Place::Any];

/// The program compiled from a source, below the crate's folder; `None` without a compiler.
fn compile(source: &str, place: Place) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let (name, link) = match place {
        Place::Own => ("own", "-static"),
        Place::Any => ("any", "-static-pie"),
    };
    let name = format!("{}-{}-{name}", source.file_stem()?.to_str()?, shrink());
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let started = Command::new("gcc")
        .args(["-O2", "-fno-math-errno", link])
        .arg(format!("-DSHRINK={}", shrink()))
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .status();
    let Ok(status) = started else {
        eprintln!("SKIPPED: there is no gcc");
        return None;
    };
    assert!(status.success(), "gcc cannot compile {}", source.display());
    Some(binary)
}

fn kernels(place: Place) -> Option<&'static Path> {
    static BINARIES: [OnceLock<Option<PathBuf>>; 2] = [const { OnceLock::new() }; 2];
    BINARIES[place as usize]
        .get_or_init(|| compile(KERNELS, place))
        .as_deref()
}

/// The output on the host's own processor.
fn native(binary: &Path, arguments: &[&str]) -> String {
    let output = Command::new(binary).args(arguments).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn level(wanted: &[Level]) -> Option<InstructionSet> {
    let sets = wanted.iter().map(|&level| InstructionSet::from(level));
    sets.into_iter().find(|set| host_requirements(set).is_ok())
}

/// The state without items that differ between levels.
fn shown(state: &[StateItem]) -> impl Iterator<Item = &StateItem> {
    state.iter().filter(|item| item.name != "xcr0")
}

fn assert_same_state(found: &[StateItem], expected: &[StateItem], what: &str) {
    for (found, expected) in shown(found).zip(shown(expected)) {
        assert_eq!(
            (&found.name, found.hex()),
            (&expected.name, expected.hex()),
            "{what}"
        );
    }
}

fn assert_same(found: &Ended, expected: &Ended, what: &str) {
    assert_eq!(found.output, expected.output, "{what}");
    assert_eq!(found.retired, expected.retired, "instructions, {what}");
    assert_same_state(&found.state, &expected.state, what);
    let mut bytes = found.memory.iter().zip(&expected.memory);
    let differs = bytes.position(|(found, expected)| found != expected);
    assert_eq!(differs, None, "physical memory, {what}");
}

fn agree(binary: &Path, arguments: &[&str], wide: bool) {
    let Some(set) = level(&[Level::V3, Level::V2]) else {
        panic!("the engine runs on this host");
    };
    if wide && host_requirements(&Level::V3.into()).is_err() {
        eprintln!("SKIPPED: this host has no AVX2");
        return;
    }
    let other = level(&[Level::V4]).unwrap_or_else(|| set.clone());
    let file = fs::read(binary).unwrap();
    let ram = (32 + 160 / shrink() as usize) << 20;
    let run =
        |set: &InstructionSet, step: u64| Process::new(&file, arguments, set, ram).run(step, BOTH);
    let whole = run(&set, u64::MAX / 4);
    assert_eq!(whole.output, native(binary, &arguments[1..]));
    // Another test of the same program may have made the shared code hot.
    assert!(
        whole.statistics.promoted > 0 || bare::is_pooled(),
        "no code became hot"
    );
    let about = Process::new(&file, arguments, &set, ram).run_about(2_400);
    assert_same(&about, &whole, "stopped about each 2,400");
    let often = run(&set, 211);
    assert_same(&often, &whole, "stopped each 211");
    let seldom = run(&other, 10_007);
    assert_same(&seldom, &whole, "stopped each 10,007");
    assert_eq!(seldom.stops.len() as u64, whole.retired / BOTH);
    for ((at, often), (_, seldom)) in often.stops.iter().zip(&seldom.stops) {
        assert_same_state(often, seldom, &format!("at instruction {at}"));
    }
}

macro_rules! kernels {
    ($($test:ident $name:literal)*) => {
        const NAMES: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                for place in PLACES {
                    if let Some(binary) = kernels(place) {
                        agree(binary, &["kernels", $name, "1"], $name.ends_with("avx2"));
                    }
                }
            }
        )*
    };
}

kernels! {
    xorshift "xorshift"
    crc32 "crc32"
    sieve "sieve"
    sort "sort"
    sha_rounds "sha-rounds"
    bytecode "bytecode"
    fib "fib"
    nbody "nbody"
    dgemm "dgemm"
    dgemm_avx2 "dgemm-avx2"
    stencil "stencil"
    triad "triad"
    triad_avx2 "triad-avx2"
    chase_near "chase-near"
    chase_far "chase-far"
    tree "tree"
    rep_movsb "rep-movsb"
    strings "strings"
}

#[test]
fn no_kernel_is_left_out() {
    if let Some(binary) = kernels(Place::Own) {
        let names = native(binary, &["list"]);
        assert_eq!(names.lines().collect::<Vec<_>>(), NAMES);
    }
}

#[test]
fn accesses_across_pages() {
    for place in PLACES {
        if let Some(binary) = compile(CROSSING, place) {
            agree(&binary, &["crossing"], false);
        }
    }
}
