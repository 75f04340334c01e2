//! Latencies, rates and ports of operations.
//!
//! A group has as many ports as independent operations in a cycle. A class occupies a port for as many cycles as make
//! its own rate. Results are rounded: files have whole numbers. `fit` calls it first, as the others use its results.

use super::{Fitted, of};
use crate::CalibrateError;
use crate::measure::Measurements;

/// Keys of latencies, and the loop whose cycles they are.
const LATENCIES: [(&str, &str); 21] = [
    ("memory.load", "load-latency"),
    ("classes.lea.latency", "lea-latency"),
    ("classes.shift.latency", "shift-latency"),
    ("classes.multiply.latency", "multiply-latency"),
    ("classes.multiply-wide.latency", "multiply-wide-latency"),
    ("classes.divide.latency", "divide-latency"),
    ("classes.crc32.latency", "crc32-latency"),
    ("classes.fp-add.chained", "fp-add-latency"),
    ("classes.fp-multiply.latency", "fp-multiply-latency"),
    (
        "classes.fp-divide-single.latency",
        "fp-divide-single-latency",
    ),
    (
        "classes.fp-divide-double.latency",
        "fp-divide-double-latency",
    ),
    ("classes.fp-root-single.latency", "fp-root-single-latency"),
    ("classes.fp-root-double.latency", "fp-root-double-latency"),
    ("classes.fp-estimate.latency", "fp-estimate-latency"),
    ("classes.fp-compare.latency", "fp-compare-latency"),
    ("classes.vector-logic.latency", "vector-logic-latency"),
    ("classes.vector-integer.latency", "vector-integer-latency"),
    ("classes.vector-shift.latency", "vector-shift-latency"),
    ("classes.vector-shuffle.latency", "vector-shuffle-latency"),
    ("classes.vector-multiply.latency", "vector-multiply-latency"),
    ("classes.convert.latency", "convert-latency"),
];

/// The same for extensions and the x87, which may be missing.
const OPTIONAL: [(&str, &str); 4] = [
    ("classes.fp-fma.latency", "fp-fma-latency"),
    ("classes.crypto.latency", "crypto-latency"),
    ("classes.x87.latency", "x87-latency"),
    ("classes.x87-divide.latency", "x87-divide-latency"),
];

/// Groups of ports, and the loop that has as many operations in a cycle.
const PORTS: [(&str, &str); 14] = [
    ("ports.alu", "alu-rate"),
    ("ports.branch", "branch-rate"),
    ("ports.shift", "shift-rate"),
    ("ports.lea", "lea-rate"),
    ("ports.multiply", "multiply-rate"),
    ("ports.load", "load-rate"),
    ("ports.vector-load", "vector-load-rate"),
    ("ports.store", "store-rate"),
    ("ports.vector", "vector-logic-rate"),
    ("ports.vector-shuffle", "vector-shuffle-rate"),
    ("ports.vector-multiply", "vector-multiply-rate"),
    ("ports.fp-add", "fp-add-rate"),
    ("ports.fp-multiply", "fp-multiply-rate"),
    ("ports.convert", "convert-rate"),
];

/// Classes, the loop of their rate, and their ports.
const OCCUPANCIES: [(&str, &str, &str); 8] = [
    ("select", "select-rate", "ports.alu"),
    ("divide", "divide-rate", "ports.divide"),
    (
        "fp-divide-single",
        "fp-divide-single-rate",
        "ports.fp-divide",
    ),
    (
        "fp-divide-double",
        "fp-divide-double-rate",
        "ports.fp-divide",
    ),
    ("fp-root-single", "fp-root-single-rate", "ports.fp-divide"),
    ("fp-root-double", "fp-root-double-rate", "ports.fp-divide"),
    ("fp-estimate", "fp-estimate-rate", "ports.fp-multiply"),
    ("vector-shift", "vector-shift-rate", "ports.vector-shuffle"),
];

pub(super) fn fit(fitted: &mut Fitted, measurements: &Measurements) -> Result<(), CalibrateError> {
    for (key, name) in LATENCIES {
        fitted.set(key, of(measurements, name)?.max(1.0));
    }
    for (key, name) in OPTIONAL {
        if measurements.loops.contains_key(name) {
            fitted.set(key, of(measurements, name)?.max(1.0));
        }
    }
    for (key, name) in PORTS {
        fitted.set(key, ports(of(measurements, name)?, 16.0));
    }
    for key in ["ports.divide", "ports.fp-divide"] {
        fitted.set(key, 1.0);
    }
    for (class, name, ports) in OCCUPANCIES {
        let cycles = of(measurements, name)? * fitted.get(ports);
        fitted.set(
            &format!("classes.{class}.occupancy"),
            nearest_factor(cycles),
        );
    }
    sums(fitted, measurements)?;
    let widest = of(measurements, "nop-rate")?.min(of(measurements, "alu-rate")?);
    for key in ["core.dispatch", "core.retire"] {
        fitted.set(key, ports(widest, 32.0));
    }
    let atomic = of(measurements, "atomic-rate")?;
    fitted.set("classes.atomic.occupancy", atomic);
    fitted.set("classes.atomic.latency", atomic);
    Ok(())
}

/// The whole number of cycles, from 1 on, that is nearest to `cycles` as a factor.
fn nearest_factor(cycles: f64) -> f64 {
    let below = cycles.floor().max(1.0);
    if cycles * cycles > below * (below + 1.0) {
        below + 1.0
    } else {
        below
    }
}

/// Ports of operations that take so many cycles each. Measured rates reach those of the ports or fall short of them.
fn ports(cycles: f64, most: f64) -> f64 {
    (1.0 / cycles - 0.25).ceil().clamp(1.0, most)
}

/// Latencies that are parts of a loop's cycles.
fn sums(fitted: &mut Fitted, measurements: &Measurements) -> Result<(), CalibrateError> {
    let cycles = |name| of(measurements, name);
    let load = cycles("load-latency")?;
    // The comparison before it takes one cycle.
    fitted.set(
        "classes.select.latency",
        (cycles("compare-and-select")? - 1.0).max(1.0),
    );
    fitted.set("memory.indexed", cycles("load-indexed-latency")? - load);
    let multiply = fitted.get("classes.fp-multiply.latency");
    let add = (cycles("add-and-multiply")? - multiply).max(fitted.get("classes.fp-add.chained"));
    fitted.set("classes.fp-add.latency", add);
    // No loop separates moves to vector registers from moves back: these keep the base's latency.
    let back = fitted.get("classes.from-vector.latency");
    let to = cycles("to-vector-and-back")? - back;
    fitted.set("classes.to-vector.latency", to);
    fitted.set(
        "memory.vector-load",
        (cycles("vector-load-and-back")? - back).max(1.0),
    );
    fitted.set(
        "classes.integer-to-fp.latency",
        cycles("to-fp-and-move-back")? - back,
    );
    fitted.set(
        "classes.fp-to-integer.latency",
        cycles("move-and-to-integer")? - to,
    );
    let select = fitted.get("classes.select.latency");
    fitted.set(
        "classes.fp-flags.latency",
        (cycles("flags-and-to-vector")? - to - select).max(1.0),
    );
    fitted.set("ports.transfer", ports(cycles("transfer-rate")?, 16.0));
    let (short, long) = (cycles("rep-movs-4096")?, cycles("rep-movs-12288")?);
    let rate = 8192.0 / (long - short).max(1.0);
    fitted.set("string.bytes-per-cycle", rate.clamp(1.0, 512.0));
    let start = (short - 4096.0 / rate).clamp(0.0, 1000.0);
    fitted.set("string.start", start);
    // The instruction's own micro-operations take some two cycles.
    let least = cycles("rep-movs-32")? - 32.0 / rate - 2.0;
    fitted.set("string.short", least.clamp(0.0, 1000.0));
    let (short, long) = (
        cycles("rep-movs-unaligned-4096")?,
        cycles("rep-movs-unaligned-12288")?,
    );
    let rate = (8192.0 / (long - short).max(1.0)).min(rate);
    fitted.set("string.unaligned-bytes-per-cycle", rate.clamp(1.0, 512.0));
    let more = short - 4096.0 / rate - start;
    fitted.set("string.unaligned", more.clamp(0.0, 1000.0));
    Ok(())
}
