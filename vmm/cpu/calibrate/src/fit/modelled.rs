//! Parameters that are chosen by the model.
//!
//! Of all values within limits, the one is chosen with which the model's cycles of the loop are nearest to the
//! measured ones. `fit` calls it last: the model then has all other parameters.

use belljar_pipeline::processor::Processor;

use super::{Fitted, of};
use crate::CalibrateError;
use crate::loops::{self, accesses};
use crate::measure::Measurements;
use crate::predict::Round;

/// Sets a parameter of the model.
type Set = fn(&mut Processor, u32);

/// A parameter, the loop that isolates it, and the values to choose from.
struct Choice {
    key: &'static str,
    name: &'static str,
    most: u32,
    set: Set,
}

const CHOICES: [Choice; 4] = [
    Choice {
        key: "memory.renamed",
        name: "store-load-latency",
        most: 12,
        set: |processor, value| processor.memory.renamed = value,
    },
    Choice {
        key: "memory.forward",
        name: "store-load-indexed-latency",
        most: 30,
        set: |processor, value| processor.memory.forward[0] = value,
    },
    Choice {
        key: "memory.vector-forward",
        name: "vector-store-load-latency",
        most: 30,
        set: |processor, value| processor.memory.forward[1] = value,
    },
    Choice {
        key: "core.taken",
        name: "taken-rate",
        most: 6,
        set: |processor, value| processor.core.taken = value,
    },
];

pub(super) fn fit(fitted: &mut Fitted, measurements: &Measurements) -> Result<(), CalibrateError> {
    let mut processor = fitted.processor()?;
    for choice in &CHOICES {
        let measured = of(measurements, choice.name)?;
        let round = round_of(choice.name)?;
        let value = nearest(0..=choice.most, measured * round.1, |value| {
            (choice.set)(&mut processor, value);
            round.0.cycles(&processor)
        });
        (choice.set)(&mut processor, value);
        fitted.set(choice.key, f64::from(value));
    }
    calls(fitted, measurements, &mut processor)?;
    mispredictions(fitted, measurements, processor)
}

/// Calls of functions of several lengths, and their returns: the loops do not tell one from the other, so each has
/// half of the cycles.
fn calls(
    fitted: &mut Fitted,
    measurements: &Measurements,
    processor: &mut Processor,
) -> Result<(), CalibrateError> {
    let mut rounds = Vec::new();
    for name in ["call-of-2", "call-of-6", "call-of-12"] {
        let (round, operations) = round_of(name)?;
        rounds.push((round, of(measurements, name)? * operations));
    }
    let set = |processor: &mut Processor, both: u32| {
        (processor.core.call, processor.core.returns) = (both.div_ceil(2), both / 2);
    };
    let mut distance = |both| {
        set(processor, both);
        let each = rounds
            .iter()
            .map(|(round, measured)| (round.cycles(processor) / measured).ln());
        each.map(|one| one * one).sum::<f64>()
    };
    let all = (0..=20).map(|both| (distance(both), both));
    let least = all.min_by(|one, other| one.0.total_cmp(&other.0));
    let both = least.map_or(0, |(_, both)| both);
    set(processor, both);
    fitted.set("core.call", f64::from(processor.core.call));
    fitted.set("core.return", f64::from(processor.core.returns));
    Ok(())
}

/// A misprediction in every second round of the loop with random jumps.
fn mispredictions(
    fitted: &mut Fitted,
    measurements: &Measurements,
    mut processor: Processor,
) -> Result<(), CalibrateError> {
    let (random, predicted) = (
        of(measurements, accesses::MISPREDICTED)?,
        of(measurements, accesses::PREDICTED)?,
    );
    let (round, _) = round_of(accesses::MISPREDICTED)?;
    let value = nearest(1..=100, 2.0 * random - predicted, |value| {
        processor.core.mispredict = value;
        round.mispredicted_cycles(&processor)
    });
    fitted.set("core.mispredict", f64::from(value));
    Ok(())
}

/// The round of a loop, and its operations.
fn round_of(name: &str) -> Result<(Round, f64), CalibrateError> {
    let all = loops::all();
    let one = all.iter().find(|one| one.name == name);
    let one = one.ok_or_else(|| CalibrateError::Measurement {
        name: name.to_owned(),
        value: "of no loop".to_owned(),
    })?;
    Ok((Round::of(one)?, f64::from(one.operations)))
}

/// The least value whose `cycles` are nearest to `measured`, as a factor.
fn nearest(
    values: std::ops::RangeInclusive<u32>,
    measured: f64,
    mut cycles: impl FnMut(u32) -> f64,
) -> u32 {
    let distances = values.map(|value| ((cycles(value) / measured).ln().abs(), value));
    let least = distances.min_by(|one, other| one.0.total_cmp(&other.0));
    least.map_or(0, |(_, value)| value)
}
