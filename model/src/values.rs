//! Values of a call's instances as functions of ranks and size.
//!
//! An instance is one execution of a call in the program's text. Values are the same for all instances, or the same in each turn of the loop around it, or follow a
//! profile over the course of the run. The rest is a function of ranks and size. Used by models and by the generation of traces.

/// Values that depend on the division of data.
mod division;
/// Parts of a call's instances.
mod instances;
/// Distributions of values around their function.
mod spread;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fit::{FitError, Fitted, Form, Point, fit};
use crate::relation::{Grid, RelationArguments};
pub use division::{Division, Factor, Rounding};
use instances::{by_turn, ends, mean, periodic, profile, same};
pub use spread::Spread;

/// Most turns with separate functions.
const MOST_TURNS: u32 = 256;

/// Longest period of values, in instances.
const MOST_PERIOD: u32 = 256;

/// Most parts of a profile.
const PARTS: usize = 64;

/// Values with a smaller relative difference are the same.
const SAME: f64 = 1e-9;

/// Parts of a profile with a smaller relative difference are noise.
const NOISE: f64 = 0.02;

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The run in which it was measured.
    pub(crate) run: usize,
    pub(crate) ranks: f64,
    pub(crate) size: f64,
    /// The number of the instance, and the number of all instances.
    pub(crate) instance: (u32, u32),
    /// The turn of the loop around it.
    pub(crate) turn: u32,
    /// The rank's position in the communicator.
    pub(crate) place: RelationArguments,
    pub(crate) value: f64,
}

/// Values of all instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// All values are the same.
    Same(Fitted),
    /// The first value, those between, and the last are each the same. A single instance counts as the last.
    Ends(Box<[Fitted; 3]>),
    /// Values of a turn are the same.
    ByTurn(Vec<Fitted>),
    /// Values repeat after this many instances: nested loops with constant turns.
    Periodic(Vec<Fitted>),
    /// A mean, and a factor for each part of the run.
    Profile(Fitted, Vec<f64>),
    /// Data are divided among ranks, in each part differently.
    Divided {
        /// The counter of the parts.
        by: PartOf,
        /// The division of each part; `None` if a function gives it.
        parts: Vec<Option<Division>>,
        /// Functions of each part's mean.
        means: Vec<Fitted>,
    },
}

/// The instance for which a value is evaluated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EvaluationPoint {
    pub(crate) ranks: f64,
    pub(crate) size: f64,
    pub(crate) instance: (u32, u32),
    pub(crate) turn: u32,
    pub(crate) place: RelationArguments,
}

/// The program's grid, if known, for values that depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hint {
    grid: Option<Grid>,
    faces: bool,
}

impl Hint {
    /// Creates a hint for values of all ranks.
    pub(crate) fn of(grid: Option<Grid>) -> Self {
        Self { grid, faces: false }
    }

    /// Creates a hint for messages with the size of a face of the grid's cells.
    pub(crate) fn faces(grid: Option<Grid>) -> Self {
        Self { grid, faces: true }
    }

    /// True if there are so few numbers of ranks that a value's growth is ambiguous: then it follows the program's grid.
    fn comes_first(self, samples: &[Sample]) -> bool {
        let few = points(samples);
        self.grid.is_some() && (few == 2 || few == 3 && self.faces)
    }
}

/// Counters of the parts of a divided value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartOf {
    /// The turn of the loop around it; the last part repeats.
    Turn,
    /// The number of the instance, in a period.
    Period,
}

/// Most parts of divided values that are searched for.
const MOST_DIVIDED: u32 = 16;

impl Values {
    /// Finds the values of these samples. Without samples they are 0. `exact` ones are counts without noise.
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

    /// Returns one function or division of ranks and size that reproduces all of these samples.
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

    /// True if it reproduces all of these samples.
    pub(crate) fn gives(&self, samples: &[Sample]) -> bool {
        samples.iter().all(|it| {
            let is = self.at(EvaluationPoint {
                ranks: it.ranks,
                size: it.size,
                instance: it.instance,
                turn: it.turn,
                place: it.place,
            });
            (is - it.value).abs() <= SAME * it.value.abs().max(1.0)
        })
    }

    /// Returns functions of ranks and size alone.
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

    /// Returns the value of an instance.
    pub(crate) fn at(&self, asked: EvaluationPoint) -> f64 {
        let EvaluationPoint { ranks, size, .. } = asked;
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
                    // Unseen turns continue like the last two.
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

    /// Returns its divisions, each with the number of its part.
    pub fn divisions(&self) -> impl Iterator<Item = (usize, &Division)> {
        let parts = match self {
            Self::Divided { parts, .. } => parts.as_slice(),
            _ => &[],
        };
        let parts = parts.iter().enumerate();
        parts.filter_map(|(at, division)| Some((at, division.as_ref()?)))
    }

    /// Returns the relative errors of its functions at points that they were not fitted to. A division has no such error, as it was not tested at other points.
    pub fn errors(&self) -> impl Iterator<Item = f64> + '_ {
        let functions = self.functions().iter().enumerate();
        let functions =
            functions.filter(|(part, _)| self.divisions().all(|(divided, _)| divided != *part));
        functions.filter_map(|(_, of)| of.error)
    }

    /// Returns the value of the first rank at a number of ranks and a size, by the function of one part.
    pub fn first(&self, part: usize, ranks: f64, size: f64) -> f64 {
        let place = RelationArguments {
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

    /// Returns its functions.
    pub fn functions(&self) -> &[Fitted] {
        match self {
            Self::Same(of) | Self::Profile(of, _) => std::slice::from_ref(of),
            Self::Ends(ends) => ends.as_slice(),
            Self::ByTurn(turns) | Self::Periodic(turns) => turns,
            Self::Divided { means, .. } => means,
        }
    }
}

/// Returns the number of distinct numbers of ranks of the samples.
fn points(samples: &[Sample]) -> usize {
    let mut all: Vec<u32> = samples.iter().map(|it| it.ranks as u32).collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// Returns divisions that reproduce all samples: of all instances, of each turn of a loop, or of each position in a period.
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

/// True if the values of each rank repeat after this many instances.
fn is_periodic(samples: &[Sample], period: u32) -> bool {
    let mut known: BTreeMap<(usize, u32, u32), f64> = BTreeMap::new();
    samples.iter().all(|it| {
        let at = it.instance.0 % period;
        *known.entry((it.run, it.place.rank, at)).or_insert(it.value) == it.value
    })
}

/// Returns a function that reproduces samples, or a division with a function of their means; the division has precedence if requested. `None` if neither does.
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
