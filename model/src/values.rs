//! Values of a call's instances as functions of ranks and size.
//!
//! An instance is one of the times at which a call of the program's text is made. Values are the same for all instances, or the same in each turn of the loop around it, or follow a
//! profile over the course of the run; what remains is a function of ranks and size. Called by models and by whoever makes traces of them.

/// Values that follow from how data are divided.
mod division;
/// Parts of the instances of a call.
mod instances;
/// How values lie around their function.
mod spread;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fit::{FitError, Fitted, Form, Point, fit};
use crate::relation::{Grid, Place};
pub use division::{Division, Factor, Rounding};
use instances::{by_turn, ends, mean, periodic, profile, same};
pub use spread::Spread;

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
    /// The rank in the communicator.
    pub(crate) place: Place,
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
    /// Data are divided among ranks, in each part in its own way.
    Divided {
        /// The counter of the parts.
        by: PartOf,
        /// The division of each part; `None` where a function gives it.
        parts: Vec<Option<Division>>,
        /// Functions of each part's mean.
        means: Vec<Fitted>,
    },
}

/// Which instance a value is asked of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) ranks: f64,
    pub(crate) size: f64,
    pub(crate) instance: (u32, u32),
    pub(crate) turn: u32,
    pub(crate) place: Place,
}

/// The grid of a program, where it is known, for values that follow from it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hint {
    grid: Option<Grid>,
    faces: bool,
}

impl Hint {
    /// For values of all ranks.
    pub(crate) fn of(grid: Option<Grid>) -> Self {
        Self { grid, faces: false }
    }

    /// For messages, which are as large as a face of the grid's cells.
    pub(crate) fn faces(grid: Option<Grid>) -> Self {
        Self { grid, faces: true }
    }

    /// True if few numbers of ranks leave open how a value goes on: then it does so as the program's grid does.
    fn comes_first(self, samples: &[Sample]) -> bool {
        let few = points(samples);
        self.grid.is_some() && (few == 2 || few == 3 && self.faces)
    }
}

/// Counters of the parts of a divided value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartOf {
    /// The turn of the loop around it; the last part stays.
    Turn,
    /// The number of the instance, in a period.
    Period,
}

/// Parts of divided values that are looked for, at most.
const MOST_DIVIDED: u32 = 16;

impl Values {
    /// What these samples are instances of. Without any they are 0. `exact` ones are counts, which no noise is in.
    pub(crate) fn of(samples: &[Sample], exact: bool, hint: Hint) -> Result<Self, FitError> {
        if samples.is_empty() {
            return Ok(Self::Same(Fitted::constant(0.0)));
        }
        let differs = samples.iter().any(|it| it.value != samples[0].value);
        let first = differs && hint.comes_first(samples);
        if exact
            && first
            && let Some(found) = divided(samples, hint.grid, true)
        {
            return Ok(found);
        }
        let plain = Self::plain(samples, exact)?;
        if exact && !plain.gives(samples) {
            return Ok(divided(samples, hint.grid, false).unwrap_or(plain));
        }
        Ok(plain)
    }

    /// One function or division of ranks and size that gives all of these samples.
    pub(crate) fn whole(samples: &[Sample], hint: Hint) -> Option<Self> {
        let all: Vec<&Sample> = samples.iter().collect();
        Some(match part(&all, hint.grid, hint.comes_first(samples))? {
            (None, fitted) => Self::Same(fitted),
            (Some(division), mean) => Self::Divided {
                by: PartOf::Turn,
                parts: vec![Some(division)],
                means: vec![mean],
            },
        })
    }

    /// True if it gives all of these samples.
    pub(crate) fn gives(&self, samples: &[Sample]) -> bool {
        samples.iter().all(|it| {
            let is = self.at(Asked {
                ranks: it.ranks,
                size: it.size,
                instance: it.instance,
                turn: it.turn,
                place: it.place,
            });
            (is - it.value).abs() <= SAME * it.value.abs().max(1.0)
        })
    }

    /// Functions of ranks and size alone.
    fn plain(samples: &[Sample], exact: bool) -> Result<Self, FitError> {
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
            Self::Divided { by, parts, means } => {
                let count = parts.len().max(1);
                let at = match by {
                    PartOf::Turn => (asked.turn as usize).min(count - 1),
                    PartOf::Period => asked.instance.0 as usize % count,
                };
                match (parts.get(at), means.get(at)) {
                    (Some(Some(division)), _) => division.at(asked.place, size),
                    (_, Some(mean)) => mean.at(ranks, size),
                    _ => 0.0,
                }
            }
        }
    }

    /// True if its parts fit together.
    pub(crate) fn is_sound(&self) -> bool {
        let divided = match self {
            Self::Divided { parts, means, .. } => !parts.is_empty() && parts.len() == means.len(),
            _ => true,
        };
        divided && self.divisions().all(|(_, it)| it.is_sound())
    }

    /// Its divisions, each with the number of its part.
    pub fn divisions(&self) -> impl Iterator<Item = (usize, &Division)> {
        let parts = match self {
            Self::Divided { parts, .. } => parts.as_slice(),
            _ => &[],
        };
        let parts = parts.iter().enumerate();
        parts.filter_map(|(at, division)| Some((at, division.as_ref()?)))
    }

    /// Relative errors of its functions at points that they were not fitted to. A division was not tried at others: it has none.
    pub fn errors(&self) -> impl Iterator<Item = f64> + '_ {
        let functions = self.functions().iter().enumerate();
        let functions =
            functions.filter(|(part, _)| self.divisions().all(|(divided, _)| divided != *part));
        functions.filter_map(|(_, of)| of.error)
    }

    /// The value of the first rank at a number of ranks and a size, by the function of one part.
    pub fn first(&self, part: usize, ranks: f64, size: f64) -> f64 {
        let place = Place {
            rank: 0,
            ranks: ranks as u32,
            turn: 0,
        };
        let division = self.divisions().find(|it| it.0 == part);
        match (division, self.functions().get(part)) {
            (Some((_, division)), _) => division.at(place, size),
            (None, Some(of)) => of.at(ranks, size),
            (None, None) => 0.0,
        }
    }

    /// The functions that it is made of.
    pub fn functions(&self) -> &[Fitted] {
        match self {
            Self::Same(of) | Self::Profile(of, _) => std::slice::from_ref(of),
            Self::Ends(ends) => ends.as_slice(),
            Self::ByTurn(turns) | Self::Periodic(turns) => turns,
            Self::Divided { means, .. } => means,
        }
    }
}

/// Numbers of ranks that samples are of.
fn points(samples: &[Sample]) -> usize {
    let mut all: Vec<u32> = samples.iter().map(|it| it.ranks as u32).collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// Divisions that give all samples: of all instances, of each turn of a loop, or of each place in a period.
fn divided(samples: &[Sample], grid: Option<Grid>, first: bool) -> Option<Values> {
    let turns = samples.iter().map(|it| it.turn).max()?.saturating_add(1);
    let least = samples.iter().map(|it| it.instance.1).min()?;
    let by_turn = (1..=MOST_DIVIDED.min(turns)).filter(|it| *it == 1 || *it == turns);
    let by_turn = by_turn.map(|count| (PartOf::Turn, count));
    let periods = (2..=MOST_PERIOD.min(least / 2)).filter(|period| is_periodic(samples, *period));
    let periods = periods.map(|period| (PartOf::Period, period));
    by_turn.chain(periods).find_map(|(by, count)| {
        let mut groups: Vec<Vec<&Sample>> = vec![Vec::new(); count as usize];
        for sample in samples {
            let at = match by {
                PartOf::Turn => sample.turn.min(count - 1),
                PartOf::Period => sample.instance.0 % count,
            };
            groups[at as usize].push(sample);
        }
        let parts = groups.iter().map(|it| part(it, grid, first));
        let (parts, means): (Vec<_>, Vec<_>) =
            parts.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let some = parts.iter().any(Option::is_some);
        some.then_some(Values::Divided { by, parts, means })
    })
}

/// True if the values of each rank begin again after so many instances.
fn is_periodic(samples: &[Sample], period: u32) -> bool {
    let mut known: BTreeMap<(usize, u32, u32), f64> = BTreeMap::new();
    samples.iter().all(|it| {
        let at = it.instance.0 % period;
        *known.entry((it.run, it.place.rank, at)).or_insert(it.value) == it.value
    })
}

/// A function that gives samples, or a division with a function of their means; the division comes first where it is asked for. `None` where neither does.
fn part(
    samples: &[&Sample],
    grid: Option<Grid>,
    first: bool,
) -> Option<(Option<Division>, Fitted)> {
    let mut runs: BTreeMap<usize, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        runs.entry(sample.run).or_default().push(sample);
    }
    let means: Vec<Point> = runs.values().map(|own| mean(own)).collect();
    let fitted = fit(&means).ok()?;
    let gives = |it: &&Sample| {
        (fitted.at(it.ranks, it.size) - it.value).abs() <= SAME * it.value.abs().max(1.0)
    };
    let smooth = samples.iter().all(gives);
    let is_settled = fitted.form == Form::Constant || fitted.form.is_equal_share();
    if smooth && (is_settled || !first) {
        return Some((None, fitted));
    }
    let known = samples.iter().map(|it| (it.place, it.size, it.value));
    match division::find(&known.collect::<Vec<_>>(), grid) {
        Some(division) => Some((Some(division), fitted)),
        None => smooth.then_some((None, fitted)),
    }
}

#[cfg(test)]
mod tests;
