//! Runs all loops on this host.
//!
//! The result is plain data, so that fitting can be tested without a processor. `belljar calibrate processor` is the
//! caller; a whole measurement takes some 20 seconds.

use std::collections::BTreeMap;

use crate::CalibrateError;
use crate::caches::{self, Cache};
use crate::clock::{Clock, function};
use crate::code::{Buffer, Function, Pages};
use crate::loops::{self, Loop};

/// Words of the buffer of loops.
const WORDS: usize = 1 << 13;
/// Passes over the loops, apart in time: other work on the host only adds cycles.
const PASSES: usize = 3;
/// Cycles that a loop runs for, of an operation that takes one.
const OPERATIONS: u64 = 1_000_000;

/// A level of data caches, as CPUID describes it.
pub type CacheSize = Cache;

/// Cycles by size: KiB or a number of pages or operations, and cycles for each.
pub type Curve = Vec<(u32, f64)>;

/// The measurements of a processor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurements {
    /// Its name by CPUID.
    pub name: String,
    /// The highest level of x86-64 that it has.
    pub level: u32,
    /// The clock's rate in MHz while it was measured.
    pub megahertz: f64,
    /// Cycles of an operation, by loop.
    pub loops: BTreeMap<String, f64>,
    /// Data caches by CPUID, from the first level on.
    pub caches: Vec<CacheSize>,
    /// Cycles of a step through a list of lines in huge pages, by KiB.
    pub lists: Curve,
    /// Cycles of a line of a stream, by KiB.
    pub streams: Curve,
    /// Cycles of an independent load of a random line, by KiB.
    pub misses: Curve,
    /// Cycles of a step through a list of one line in each small page, by pages.
    pub pages: Curve,
    /// Cycles of a pair of loads from memory, by operations between them.
    pub windows: Curve,
}

/// Measures this host's processor; `step` is called before each part with its name.
///
/// # Errors
/// [`CalibrateError`] if the host refuses memory.
pub fn measure(mut step: impl FnMut(&str)) -> Result<Measurements, CalibrateError> {
    let mut clock = Clock::new()?;
    step("operations");
    let mut loops = BTreeMap::new();
    time(&mut clock, &mut loops)?;
    step("window");
    let windows = caches::windows(&mut clock)?;
    step("caches and bandwidth");
    let (mut lists, mut streams, mut misses) = (Curve::new(), Curve::new(), Curve::new());
    for pass in 0..PASSES {
        lower(&mut lists, caches::lists(&mut clock)?);
        lower(&mut streams, caches::streams(&mut clock)?);
        lower(&mut misses, caches::misses(&mut clock)?);
        if pass > 0 {
            time(&mut clock, &mut loops)?;
        }
    }
    step("translation");
    let pages = caches::pages(&mut clock)?;
    Ok(Measurements {
        name: caches::name(),
        level: level(),
        megahertz: clock.rate() * 1000.0,
        loops,
        caches: caches::sizes(),
        lists,
        streams,
        misses,
        pages,
        windows,
    })
}

/// Keeps the lower cycles of each size of two curves.
fn lower(known: &mut Curve, other: Curve) {
    if known.is_empty() {
        *known = other;
        return;
    }
    for ((_, lowest), (_, cycles)) in known.iter_mut().zip(other) {
        *lowest = lowest.min(cycles);
    }
}

/// Times all loops of this host, and keeps the lower cycles of each.
fn time(clock: &mut Clock, known: &mut BTreeMap<String, f64>) -> Result<(), CalibrateError> {
    for one in loops::all() {
        if one.extension.is_here() {
            let cycles = cycles(clock, &one)?;
            let lowest = known.entry(one.name.to_owned()).or_insert(cycles);
            *lowest = lowest.min(cycles);
        }
    }
    Ok(())
}

/// Cycles of an operation of a loop.
pub(crate) fn cycles(clock: &mut Clock, one: &Loop) -> Result<f64, CalibrateError> {
    let code = function(one.name, &one.setup, &one.body)?;
    let function = Function::new(&code)?;
    let mut buffer = Buffer::new(WORDS, Pages::Huge)?;
    let rounds = (OPERATIONS / 4 / u64::from(one.operations)).clamp(2_000, 100_000);
    Ok(clock.cycles(&function, &mut buffer, rounds) / f64::from(one.operations))
}

/// The highest level of x86-64 of this host.
fn level() -> u32 {
    use std::arch::is_x86_feature_detected as has;
    let second = has!("sse4.2") && has!("popcnt") && has!("ssse3");
    let third = has!("avx2") && has!("bmi1") && has!("bmi2") && has!("fma") && has!("f16c");
    let fourth = has!("avx512f")
        && has!("avx512bw")
        && has!("avx512cd")
        && has!("avx512dq")
        && has!("avx512vl");
    1 + u32::from(second) + u32::from(second && third) + u32::from(second && third && fourth)
}
