//! Sizes, latencies and rates of caches, translation buffers and memory.
//!
//! Sizes are those of CPUID. If loads find much less of the last level, that part is the third level and the rest a
//! fourth one. Latencies are those of lists beyond a hit in the first level. `fit` calls it after the operations.

use super::{Fitted, at, edge};
use crate::CalibrateError;
use crate::measure::{CacheSize, Measurements};

/// KiB of a buffer that is in memory.
const MEMORY_KIB: u32 = 64 << 10;

pub(super) fn fit(fitted: &mut Fitted, measurements: &Measurements) -> Result<(), CalibrateError> {
    let missing = |name: &str| CalibrateError::Measurement {
        name: name.to_owned(),
        value: "missing".to_owned(),
    };
    let [first, second, farther @ ..] = &measurements.caches[..] else {
        return Err(missing("caches of two levels"));
    };
    let first_cycles = at(&measurements.lists, "lists", 1)?;
    size(fitted, "l1d", first.kib, first.ways);
    size(fitted, "l2", second.kib, second.ways);
    let inside = second.kib / 4;
    level(fitted, measurements, "l2", inside, (first_cycles, 0.0))?;
    let nearer = fitted.get("caches.l2.line-ticks");
    // The base's levels are those of another processor.
    for name in ["l3", "l4"] {
        fitted.remove("caches", name);
    }
    if let Some(third) = farther.last() {
        third_level(
            fitted,
            measurements,
            [*second, *third],
            (first_cycles, nearer),
        )?;
    }
    level(
        fitted,
        measurements,
        "memory",
        MEMORY_KIB,
        (first_cycles, nearer),
    )?;
    window(fitted, measurements)?;
    translation(fitted, measurements, first_cycles)
}

fn size(fitted: &mut Fitted, name: &str, kib: u32, ways: u32) {
    fitted.set(&format!("caches.{name}.kib"), kib.into());
    fitted.set(&format!("caches.{name}.ways"), ways.into());
}

/// The cost of lines of buffers of `kib`; `nearer` are the cycles of a hit in the first level, and the ticks of a line
/// from the second one.
fn level(
    fitted: &mut Fitted,
    measurements: &Measurements,
    name: &str,
    kib: u32,
    (first, nearer): (f64, f64),
) -> Result<(), CalibrateError> {
    let latency = at(&measurements.lists, "lists", kib)? - first;
    let line = (at(&measurements.streams, "streams", kib)? * 1000.0 - nearer).max(100.0);
    let miss = (at(&measurements.misses, "misses", kib)? * 1000.0).max(line);
    // Two digits: the third one is noise.
    let rounded = |ticks: f64| {
        let digit = 10f64.powf(ticks.log10().floor() - 1.0);
        (ticks / digit).round() * digit
    };
    fitted.set(&format!("caches.{name}.latency"), latency);
    fitted.set(&format!("caches.{name}.line-ticks"), rounded(line));
    fitted.set(&format!("caches.{name}.miss-ticks"), rounded(miss));
    // Shared paths were not measured: they must not be dearer than the own one.
    let shared = format!("caches.{name}.shared-ticks");
    let most = fitted.get(&format!("caches.{name}.line-ticks"));
    if fitted.get(&shared) > most {
        fitted.put(&shared, most as i64);
    }
    Ok(())
}

/// The third level, and the part of it that loads do not find.
fn third_level(
    fitted: &mut Fitted,
    measurements: &Measurements,
    [second, third]: [CacheSize; 2],
    nearer: (f64, f64),
) -> Result<(), CalibrateError> {
    let begin = second.kib * 2;
    let near = at(&measurements.lists, "lists", begin)?;
    let farther = measurements.lists.iter().filter(|(kib, _)| *kib >= begin);
    let (found, _) = edge(&farther.copied().collect(), near * 1.6);
    let found = found.unwrap_or(third.kib).min(third.kib);
    if found * 4 >= third.kib * 3 || found >= third.kib / 2 {
        size(fitted, "l3", third.kib, third.ways);
        return level(fitted, measurements, "l3", begin, nearer);
    }
    fitted.notes.push(format!(
        "CPUID has {} KiB of the third level, but loads find only {found} KiB of it within {near:.0} cycles: it is \
         divided into l3 and l4.",
        third.kib
    ));
    // Ways that leave a power of two of sets.
    let sets = (found * 16 / 16).next_power_of_two() / 2;
    let ways = (found * 16 / sets.max(64)).clamp(1, 64);
    size(fitted, "l3", sets.max(64) * ways / 16, ways);
    level(fitted, measurements, "l3", begin, nearer)?;
    let inside = measurements
        .lists
        .iter()
        .filter(|(kib, _)| (begin..=found).contains(kib));
    let (count, sum) = inside.fold((0.0, 0.0), |(count, sum), (_, cycles)| {
        (count + 1.0, sum + cycles)
    });
    fitted.set("caches.l3.latency", sum / f64::max(count, 1.0) - nearer.0);
    // Streams may still arrive at the level's rate; beyond that size, lines come from memory.
    let inside = at(&measurements.streams, "streams", begin)? * 1.6;
    let streams = measurements.streams.iter().filter(|(kib, _)| *kib >= begin);
    let (streamed, _) = edge(&streams.copied().collect(), inside);
    let reached = streamed.unwrap_or(found).clamp(found, third.kib);
    if reached == found {
        return Ok(());
    }
    let sets = third.kib * 16 / third.ways;
    let ways = (reached * 16 / sets.max(1)).clamp(1, third.ways);
    size(fitted, "l4", sets * ways / 16, ways);
    level(fitted, measurements, "l4", reached, nearer)
}

/// Operations between two loads from memory that do not overlap.
fn window(fitted: &mut Fitted, measurements: &Measurements) -> Result<(), CalibrateError> {
    let one = at(&measurements.windows, "windows", 1)?;
    let (_, beyond) = edge(&measurements.windows, one * 1.5);
    match beyond {
        Some(number) if number > 16 => {
            fitted.set("core.window", f64::from(number - 1));
            Ok(())
        }
        _ => Err(CalibrateError::Measurement {
            name: "windows".to_owned(),
            value: "without an edge".to_owned(),
        }),
    }
}

/// Translation buffers, by lists of a line in each page.
fn translation(
    fitted: &mut Fitted,
    measurements: &Measurements,
    first: f64,
) -> Result<(), CalibrateError> {
    let (near, beyond) = edge(&measurements.pages, first + 2.5);
    let (Some(near), Some(beyond)) = (near, beyond) else {
        return Err(CalibrateError::Measurement {
            name: "pages".to_owned(),
            value: "without an edge".to_owned(),
        });
    };
    fitted.set("tlb.first", f64::from(near.clamp(4, 256)));
    let latency = (at(&measurements.pages, "pages", beyond)? - first).clamp(0.0, 1000.0);
    fitted.set("tlb.latency", latency);
    // The lines themselves leave the first level before the second buffer is full.
    let middle = at(&measurements.pages, "pages", 1024)?;
    let (_, beyond) = edge(&measurements.pages, middle * 1.6);
    if let Some(pages) = beyond {
        let line = at(&measurements.lists, "lists", pages / 16)?;
        let walk = at(&measurements.pages, "pages", pages)? - line;
        fitted.set("tlb.walk", walk.clamp(latency.ceil(), 10_000.0));
    }
    Ok(())
}
