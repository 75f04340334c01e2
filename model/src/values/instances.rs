//! Parts of a call's instances whose values have separate functions.
//!
//! Parts are the first and the last, turns of a loop, positions in a period, or parts of a run. Used by `values`.

use std::collections::BTreeMap;

use super::{MOST_PERIOD, MOST_TURNS, PARTS, SAME, Sample};
use crate::fit::Point;

pub(super) fn mean(own: &[&Sample]) -> Point {
    let sum: f64 = own.iter().map(|it| it.value).sum();
    Point {
        ranks: own[0].ranks,
        size: own[0].size,
        value: sum / own.len() as f64,
    }
}

pub(super) fn same(own: &[&Sample]) -> bool {
    if own.is_empty() {
        return true;
    }
    let values = own.iter().map(|it| it.value);
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    most - least <= SAME * most.abs()
}

/// Returns the points of the first, the middle and the last instances, if they are each the same within each run.
pub(super) fn ends(runs: &BTreeMap<usize, Vec<&Sample>>) -> Option<[Vec<Point>; 3]> {
    let mut points = [const { Vec::new() }; 3];
    for own in runs.values() {
        let mut parts = [const { Vec::new() }; 3];
        for sample in own {
            let (instance, count) = sample.instance;
            let part = match instance {
                it if it + 1 >= count => 2,
                0 => 0,
                _ => 1,
            };
            parts[part].push(*sample);
        }
        for (points, part) in points.iter_mut().zip(&parts) {
            if !same(part) {
                return None;
            }
            if !part.is_empty() {
                points.push(mean(part));
            }
        }
    }
    points.iter().all(|it| !it.is_empty()).then_some(points)
}

/// Returns the points of each turn, if within each run all values of a turn are the same.
pub(super) fn by_turn(runs: &BTreeMap<usize, Vec<&Sample>>) -> Option<Vec<Vec<Point>>> {
    let most = runs.values().flatten().map(|it| it.turn).max()?;
    if most == 0 || most >= MOST_TURNS {
        return None;
    }
    let mut turns = vec![Vec::new(); most as usize + 1];
    for own in runs.values() {
        let mut by: BTreeMap<u32, Vec<&Sample>> = BTreeMap::new();
        for sample in own {
            by.entry(sample.turn).or_default().push(sample);
        }
        for (turn, own) in by {
            if !same(&own) {
                return None;
            }
            turns[turn as usize].push(mean(&own));
        }
    }
    // A turn missing from all runs has no function.
    turns.iter().all(|it| !it.is_empty()).then_some(turns)
}

/// Returns the points of each part of the shortest period of the values; for times, a period that explains most of their variation.
pub(super) fn periodic(
    runs: &BTreeMap<usize, Vec<&Sample>>,
    exact: bool,
) -> Option<Vec<Vec<Point>>> {
    let least = runs.values().flatten().map(|it| it.instance.1).min()?;
    // A period that is seen less than four times may be an accident.
    let longest = MOST_PERIOD.min(least / 4);
    let explained: Vec<f64> = (2..=longest).map(|period| shared(runs, period)).collect();
    let most = explained.iter().copied().fold(0.0, f64::max);
    let enough = if exact {
        1.0 - SAME
    } else {
        (0.95 * most).max(0.5)
    };
    let at = explained.iter().position(|share| *share >= enough)?;
    let period = at as u32 + 2;
    let mut points = vec![Vec::new(); period as usize];
    for own in runs.values() {
        let mut parts: Vec<Vec<&Sample>> = vec![Vec::new(); period as usize];
        for sample in own {
            parts[(sample.instance.0 % period) as usize].push(*sample);
        }
        for (points, part) in points.iter_mut().zip(&parts) {
            if !part.is_empty() {
                points.push(mean(part));
            }
        }
    }
    // Parts without instances are never evaluated.
    let means: Vec<Point> = runs.values().map(|own| mean(own)).collect();
    for part in points.iter_mut().filter(|it| it.is_empty()) {
        part.clone_from(&means);
    }
    Some(points)
}

/// Returns the share of the variation of values that a period explains, in the run with the least.
fn shared(runs: &BTreeMap<usize, Vec<&Sample>>, period: u32) -> f64 {
    let of = |own: &Vec<&Sample>| {
        let whole = mean(own).value;
        let mut sums = vec![(0.0, 0.0); period as usize];
        for sample in own {
            let sum = &mut sums[(sample.instance.0 % period) as usize];
            *sum = (sum.0 + sample.value, sum.1 + 1.0);
        }
        let all: f64 = own.iter().map(|it| (it.value - whole).powi(2)).sum();
        let rest = own.iter().map(|it| {
            let (sum, count) = sums[(it.instance.0 % period) as usize];
            (it.value - sum / count).powi(2)
        });
        if all > 0.0 {
            1.0 - rest.sum::<f64>() / all
        } else {
            1.0
        }
    };
    runs.values().map(of).fold(1.0, f64::min)
}

/// Returns the values of each part of a run divided by the run's mean, averaged over runs.
pub(super) fn profile(runs: &BTreeMap<usize, Vec<&Sample>>) -> Vec<f64> {
    let most = runs.values().flatten().map(|it| it.instance.1).max();
    let parts = PARTS.min(most.unwrap_or(1).max(1) as usize);
    let mut sums = vec![(0.0, 0.0); parts];
    for own in runs.values() {
        let whole = mean(own).value;
        if whole == 0.0 {
            continue;
        }
        for sample in own {
            let (instance, count) = sample.instance;
            let at = instance as usize * parts / count.max(1) as usize;
            let sum = &mut sums[at.min(parts - 1)];
            *sum = (sum.0 + sample.value / whole, sum.1 + 1.0);
        }
    }
    let part = |(sum, count): &(f64, f64)| if *count > 0.0 { sum / count } else { 1.0 };
    sums.iter().map(part).collect()
}
