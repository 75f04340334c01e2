//! Values of a call's instances as functions of ranks and size.
//!
//! An instance is one of the times at which a call of the program's text is made. Values are the same for all instances, or the same in each turn of the loop around it, or follow a
//! profile over the course of the run; what remains is a function of ranks and size. Called by models and by whoever makes traces of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fit::{FitError, Fitted, Point, fit};

/// Turns that have functions of their own, at most.
const MOST_TURNS: u32 = 256;

/// Instances after which values may begin again, at most.
const MOST_PERIOD: u32 = 256;

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
    /// Each so many instances it begins again: loops within loops that always turn equally often.
    Periodic(Vec<Fitted>),
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
        if let Some(parts) = periodic(&runs, exact) {
            let parts: Result<Vec<Fitted>, FitError> = parts.iter().map(|it| fit(it)).collect();
            return Ok(Self::Periodic(parts?));
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
            Self::Periodic(parts) => {
                let at = asked.instance.0 as usize % parts.len().max(1);
                parts.get(at).map_or(0.0, |of| of.at(ranks, size))
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
            Self::ByTurn(turns) | Self::Periodic(turns) => turns,
        }
    }
}

/// How values lie around what their function says: those of a rank that is held up make others wait, so a mean alone is too good.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread(
    /// Quantiles of values over what the function says, as many from one to the next; none where all are the same.
    Vec<f64>,
);

/// Quantiles of a spread.
const QUANTILES: usize = 64;

impl Spread {
    /// That of these samples around `values`.
    pub(crate) fn of(samples: &[Sample], values: &Values) -> Self {
        let ratio = |it: &Sample| {
            let said = values.at(Asked {
                ranks: it.ranks,
                size: it.size,
                instance: it.instance,
                turn: it.turn,
            });
            (said > 0.0).then_some(it.value / said)
        };
        let mut ratios: Vec<f64> = samples.iter().filter_map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let sum: f64 = ratios.iter().sum();
        let ends = ratios.first().zip(ratios.last());
        if ends.is_none_or(|(least, most)| most - least < NOISE) || sum <= 0.0 {
            return Self::default();
        }
        let parts = QUANTILES.min(ratios.len());
        // Each part's mean, so that the mean of all is the samples'.
        let part = |at: usize| {
            let own = &ratios[at * ratios.len() / parts..(at + 1) * ratios.len() / parts];
            own.iter().sum::<f64>() / own.len() as f64
        };
        let all: Vec<f64> = (0..parts).map(part).collect();
        let mean = all.iter().sum::<f64>() / parts as f64;
        Self(all.iter().map(|it| it / mean).collect())
    }

    /// The value over the function's of what has this number: the same each time, and any of them as likely.
    pub(crate) fn at(&self, number: u64) -> f64 {
        // The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
        let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let at = ((u128::from(mixed) * self.0.len() as u128) >> 64) as usize;
        self.0.get(at).copied().unwrap_or(1.0)
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

/// The points of each part of the shortest period after which values begin again; those of times do so if that explains most of how they differ.
fn periodic(runs: &BTreeMap<usize, Vec<&Sample>>, exact: bool) -> Option<Vec<Vec<Point>>> {
    let least = runs.values().flatten().map(|it| it.instance.1).min()?;
    // A period that is seen less than four times might be none.
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
    // Parts that none of these instances is of are never asked for.
    let means: Vec<Point> = runs.values().map(|own| mean(own)).collect();
    for part in points.iter_mut().filter(|it| it.is_empty()) {
        part.clone_from(&means);
    }
    Some(points)
}

/// Which share of how values differ a period explains, in the run in which it explains least.
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
    fn a_spread_has_the_mean_and_the_tail_of_its_samples() {
        let samples = (0..1000).map(|at| Sample {
            run: 0,
            ranks: 4.0,
            size: 1.0,
            instance: (at, 1000),
            turn: 0,
            value: if at % 100 == 7 { 50.0 } else { 1.0 },
        });
        let samples: Vec<Sample> = samples.collect();
        let mean = Values::Same(Fitted::constant(1.49));
        let spread = Spread::of(&samples, &mean);
        let all: Vec<f64> = (0..100_000)
            .map(|number| 1.49 * spread.at(number))
            .collect();
        let found = all.iter().sum::<f64>() / all.len() as f64;
        assert!((found / 1.49 - 1.0).abs() < 0.05, "{found}");
        assert!(all.iter().any(|it| *it > 20.0));
        assert_eq!(spread.at(5), spread.at(5));
        let same: Vec<Sample> = samples
            .iter()
            .map(|it| Sample { value: 3.0, ..*it })
            .collect();
        assert_eq!(Spread::of(&same, &mean), Spread::default());
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
        // Levels of a grid, down and up again in each cycle.
        let levels = [32768.0, 8192.0, 2048.0, 2048.0, 8192.0, 32768.0];
        let cycles = values(
            |ranks, turn, _| levels[turn as usize % 6] / ranks,
            |ranks| 60 * ranks,
        );
        assert!(
            matches!(&cycles, Values::Periodic(parts) if parts.len() == 6),
            "{cycles:?}"
        );
        assert!((at(&cycles, 64.0, (61, 3840)) - 128.0).abs() < 1e-6);
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
