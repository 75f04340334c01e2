//! Values of a call's instances as functions of ranks and size.
//!
//! An instance is one of the times at which a call of the program's text is made. Values are the same for all instances, or the same in each turn of the loop around it, or follow a
//! profile over the course of the run; what remains is a function of ranks and size. Called by models and by whoever makes traces of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fit::{FitError, Fitted, Point, fit};

/// Turns that have functions of their own, at most.
const MOST_TURNS: u32 = 256;

/// Parts of a profile, at most.
const PARTS: usize = 64;

/// Values that differ by less than this share of them are the same.
const SAME: f64 = 1e-9;

/// Parts of a profile that differ by less than this share are noise.
const NOISE: f64 = 0.02;

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// In which run it was seen.
    pub(crate) run: usize,
    pub(crate) ranks: f64,
    pub(crate) size: f64,
    /// Which instance it is, of how many.
    pub(crate) instance: (u32, u32),
    /// The turn of the loop around it.
    pub(crate) turn: u32,
    pub(crate) value: f64,
}

/// Values of all instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// All are the same.
    Same(Fitted),
    /// The first, those between, and the last are each the same. Of one instance alone the last counts.
    Ends(Box<[Fitted; 3]>),
    /// Those of a turn are the same.
    ByTurn(Vec<Fitted>),
    /// In the mean so much, and in each part of the run so many times as much.
    Profile(Fitted, Vec<f64>),
}

/// Which instance a value is asked of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) ranks: f64,
    pub(crate) size: f64,
    pub(crate) instance: (u32, u32),
    pub(crate) turn: u32,
}

impl Values {
    /// What these samples are instances of. Without any they are 0. `exact` ones are counts, which no noise is in.
    pub(crate) fn of(samples: &[Sample], exact: bool) -> Result<Self, FitError> {
        if samples.is_empty() {
            return Ok(Self::Same(Fitted::constant(0.0)));
        }
        let mut runs: BTreeMap<usize, Vec<&Sample>> = BTreeMap::new();
        for sample in samples {
            runs.entry(sample.run).or_default().push(sample);
        }
        let means: Vec<Point> = runs.values().map(|own| mean(own)).collect();
        if runs.values().all(|own| same(own)) {
            return Ok(Self::Same(fit(&means)?));
        }
        if let Some(ends) = ends(&runs) {
            let [first, middle, last] = ends.map(|it| fit(&it));
            return Ok(Self::Ends(Box::new([first?, middle?, last?])));
        }
        if let Some(turns) = by_turn(&runs) {
            let turns: Result<Vec<Fitted>, FitError> = turns.iter().map(|it| fit(it)).collect();
            return Ok(Self::ByTurn(turns?));
        }
        let whole = fit(&means)?;
        let profile = profile(&runs);
        let limit = if exact { SAME } else { NOISE };
        match profile.iter().any(|part| (part - 1.0).abs() > limit) {
            true => Ok(Self::Profile(whole, profile)),
            false => Ok(Self::Same(whole)),
        }
    }

    /// The value of an instance.
    pub(crate) fn at(&self, asked: Asked) -> f64 {
        let Asked { ranks, size, .. } = asked;
        match self {
            Self::Same(of) => of.at(ranks, size),
            Self::Ends(ends) => {
                let (instance, count) = asked.instance;
                let [first, middle, last] = ends.as_ref();
                let of = match instance {
                    it if it + 1 >= count => last,
                    0 => first,
                    _ => middle,
                };
                of.at(ranks, size)
            }
            Self::ByTurn(turns) => {
                let value = |turn: usize| turns.get(turn).map(|of| of.at(ranks, size));
                let turn = asked.turn as usize;
                value(turn).unwrap_or_else(|| {
                    // Turns that were not seen continue as the last two did.
                    let count = turns.len();
                    let last = count.checked_sub(1).and_then(value).unwrap_or(0.0);
                    let before = count.checked_sub(2).and_then(value).unwrap_or(last);
                    let more = (turn + 1).saturating_sub(count).min(64) as i32;
                    match before != 0.0 && last != 0.0 {
                        true => last * (last / before).powi(more),
                        false => last,
                    }
                })
            }
            Self::Profile(of, parts) => {
                let (instance, count) = asked.instance;
                let at = instance as usize * parts.len() / count.max(1) as usize;
                let part = parts.get(at.min(parts.len().saturating_sub(1)));
                of.at(ranks, size) * part.unwrap_or(&1.0)
            }
        }
    }

    /// The functions that it is made of.
    pub fn functions(&self) -> &[Fitted] {
        match self {
            Self::Same(of) | Self::Profile(of, _) => std::slice::from_ref(of),
            Self::Ends(ends) => ends.as_slice(),
            Self::ByTurn(turns) => turns,
        }
    }
}

fn mean(own: &[&Sample]) -> Point {
    let sum: f64 = own.iter().map(|it| it.value).sum();
    Point {
        ranks: own[0].ranks,
        size: own[0].size,
        value: sum / own.len() as f64,
    }
}

fn same(own: &[&Sample]) -> bool {
    if own.is_empty() {
        return true;
    }
    let values = own.iter().map(|it| it.value);
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    most - least <= SAME * most.abs()
}

/// The points of the first, the middle and the last instances, if in each run each of them are the same.
fn ends(runs: &BTreeMap<usize, Vec<&Sample>>) -> Option<[Vec<Point>; 3]> {
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

/// The points of each turn, if in each run all values of a turn are the same.
fn by_turn(runs: &BTreeMap<usize, Vec<&Sample>>) -> Option<Vec<Vec<Point>>> {
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
    // A turn that no run has got makes no function.
    turns.iter().all(|it| !it.is_empty()).then_some(turns)
}

/// How many times the mean of the run the values are in each part of it, in the mean of runs.
fn profile(runs: &BTreeMap<usize, Vec<&Sample>>) -> Vec<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn values(of: impl Fn(f64, u32, u32) -> f64, turns: fn(u32) -> u32) -> Values {
        let mut samples = Vec::new();
        for (run, ranks) in [4_u32, 8, 16].into_iter().enumerate() {
            let count = turns(ranks);
            for instance in 0..count {
                samples.push(Sample {
                    run,
                    ranks: f64::from(ranks),
                    size: 1.0,
                    instance: (instance, count),
                    turn: instance,
                    value: of(f64::from(ranks), instance, count),
                });
            }
        }
        Values::of(&samples, true).unwrap()
    }

    fn at(values: &Values, ranks: f64, instance: (u32, u32)) -> f64 {
        let turn = instance.0;
        values.at(Asked {
            ranks,
            size: 1.0,
            instance,
            turn,
        })
    }

    #[test]
    fn values_of_turns_and_profiles_continue() {
        let doubling = values(
            |_, turn, _| 8.0 * f64::from(1 << turn),
            |ranks| ranks.ilog2(),
        );
        assert!(
            (at(&doubling, 64.0, (5, 6)) - 256.0).abs() < 1e-6,
            "{doubling:?}"
        );
        let halves = values(|ranks, turn, _| 4096.0 / ranks / f64::from(turn + 1), |_| 4);
        assert!(
            (at(&halves, 64.0, (1, 4)) - 32.0).abs() < 1e-6,
            "{halves:?}"
        );
        let same = values(|ranks, _, _| 100.0 / ranks, |_| 50);
        assert!(matches!(same, Values::Same(_)), "{same:?}");
        // Falls over the run: too many turns for functions of their own.
        let falling = values(
            |ranks, turn, count| 1e6 / ranks * f64::from(count - turn) / f64::from(count),
            |ranks| 100 * ranks,
        );
        let Values::Profile(..) = &falling else {
            panic!("{falling:?}");
        };
        let early = at(&falling, 64.0, (100, 6400));
        assert!((early / (1e6 / 64.0) - 0.985).abs() < 0.02, "{early}");
    }
}
