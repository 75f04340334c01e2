//! Hosts' costs that explain traced calls best.
//!
//! What calls took that costs and network do not explain, and what they explain too long, is made as small as it gets: the sum of the sizes of all residuals of
//! calls that move data, over the traces that are given. One cost after another is made larger and smaller by a step that shrinks when nothing
//! helps (pattern search: R. Hooke and T. A. Jeeves, "Direct search solution of numerical and statistical problems", J. ACM 8, 1961). The sum of sizes, not of squares, so that
//! a few calls that waited for something else do not move what all others say. Called by `belljar replay calibrate`.

use belljar_program::Program;
use belljar_sim::figures::significant;
use serde::Serialize;

use crate::calibration::{Calibration, Fit};
use crate::costs::Costs;
use crate::replay::{ReplayError, Setting, calibrate};

/// Significant digits of fitted costs: the last step is a hundredth of a cost.
const DIGITS: usize = 6;
/// The first step, as a share of a cost.
const FIRST: f64 = 0.5;
/// The last.
const LAST: f64 = 0.01;
/// Cycles of which the step is a share where a cost is less.
const LEAST: f64 = 500.0;
/// Cycles of which it is one where a cost is by byte.
const LEAST_BY_BYTE: f64 = 0.01;
/// A cost of which a tenth more moves no more than this share of the unexplained time is not determined.
const MOVES: f64 = 0.0005;

/// A cost that is fitted.
struct Dial {
    name: &'static str,
    least: f64,
    of: fn(&mut Costs) -> &mut f64,
}

impl Dial {
    const fn new(name: &'static str, least: f64, of: fn(&mut Costs) -> &mut f64) -> Self {
        Self { name, least, of }
    }

    /// Cycles by which it is changed: this share of it.
    fn step(&self, costs: &Costs, share: f64) -> f64 {
        let mut costs = *costs;
        share * (self.of)(&mut costs).max(self.least)
    }
}

const DIALS: [Dial; 12] = [
    Dial::new("send.first", LEAST, |costs| &mut costs.send.first),
    Dial::new("receive.first", LEAST, |costs| &mut costs.receive.first),
    Dial::new("send.frame", LEAST, |costs| &mut costs.send.frame),
    Dial::new("take_in", LEAST, |costs| &mut costs.take_in),
    Dial::new("receive.several", LEAST, |costs| &mut costs.receive.several),
    Dial::new("receive.frame", LEAST, |costs| &mut costs.receive.frame),
    Dial::new("send.several", LEAST, |costs| &mut costs.send.several),
    Dial::new("control", LEAST, |costs| &mut costs.control),
    Dial::new("contact", LEAST, |costs| &mut costs.contact),
    Dial::new("begin", LEAST, |costs| &mut costs.begin),
    Dial::new("combine", LEAST_BY_BYTE, |costs| &mut costs.combine),
    Dial::new("copy", LEAST_BY_BYTE, |costs| &mut costs.copy),
];

/// A traced program, and what it was traced on. The costs of the setting are where the search begins.
#[derive(Clone, Debug)]
pub struct Traced<'a> {
    /// What its threads did.
    pub program: &'a Program,
    /// On what.
    pub setting: Setting,
}

/// Costs that were fitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// The costs.
    pub costs: Costs,
    /// Each that was fitted.
    pub each: Vec<FittedCost>,
    /// How well the traces were explained before, in their order.
    pub before: Vec<Fit>,
    /// How well they are with the fitted costs.
    pub after: Vec<Fit>,
    /// How many times the traces were played.
    pub plays: u32,
    /// It was broken off: the costs are the best that had been found.
    pub broken_off: bool,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FittedCost {
    /// Its name.
    pub name: &'static str,
    /// Cycles before.
    pub was: f64,
    /// Cycles that fit best.
    pub is: f64,
    /// Whether the traces say anything about it: if not, it is as it was.
    pub determined: bool,
}

/// Fits the hosts' costs to traces. `each` is asked before the traces are played once more, and says whether to continue.
///
/// # Errors
/// [`ReplayError`] when a setting does not fit its program.
pub fn fit_costs(
    traced: &mut [Traced<'_>],
    each: impl FnMut() -> bool,
) -> Result<Fitted, ReplayError> {
    let costs = traced.first().map_or_else(
        || Costs::of(belljar_trace::Implementation::Mpich),
        |of| of.setting.costs,
    );
    let mut search = Search {
        traced,
        each,
        plays: 0,
        broken_off: false,
    };
    let before = search.fits(&costs)?;
    let least = unexplained(&before);
    let mut dials = Vec::new();
    for dial in &DIALS {
        if search.determines(dial, costs, least)? {
            dials.push(dial);
        }
    }
    let mut best = search.fit(&dials, costs, least)?;
    for dial in &DIALS {
        let cost = (dial.of)(&mut best);
        *cost = significant(*cost, DIGITS);
    }
    let each = DIALS.iter().map(|dial| {
        let (mut was, mut is) = (costs, best);
        FittedCost {
            name: dial.name,
            was: *(dial.of)(&mut was),
            is: *(dial.of)(&mut is),
            determined: dials.iter().any(|of| of.name == dial.name),
        }
    });
    Ok(Fitted {
        costs: best,
        each: each.collect(),
        before,
        after: search.fits(&best)?,
        plays: search.plays,
        broken_off: search.broken_off,
    })
}

struct Search<'a, 'p, E> {
    traced: &'a mut [Traced<'p>],
    each: E,
    plays: u32,
    broken_off: bool,
}

impl<E: FnMut() -> bool> Search<'_, '_, E> {
    /// How well costs explain the traces.
    fn fits(&mut self, costs: &Costs) -> Result<Vec<Fit>, ReplayError> {
        self.plays += 1;
        let fit = |traced: &mut Traced<'_>| {
            traced.setting.costs = *costs;
            let calibration: Calibration = calibrate(traced.program, &traced.setting)?;
            Ok(calibration.fit(traced.program))
        };
        self.traced.iter_mut().map(fit).collect()
    }

    /// Picoseconds that these costs do not explain, or too long; `None` when told to stop.
    fn left(&mut self, costs: &Costs) -> Result<Option<f64>, ReplayError> {
        if self.broken_off || !(self.each)() {
            self.broken_off = true;
            return Ok(None);
        }
        Ok(Some(unexplained(&self.fits(costs)?)))
    }

    /// The best costs, of which these dials change.
    fn fit(&mut self, dials: &[&Dial], best: Costs, least: f64) -> Result<Costs, ReplayError> {
        let mut found = (best, least);
        let mut step = FIRST;
        while step > LAST && !self.broken_off {
            let mut better = false;
            for dial in dials {
                let by = dial.step(&found.0, step);
                better |= self.turn(&mut found, &[(dial, by)])?
                    || self.turn(&mut found, &[(dial, -by)])?;
            }
            // Sums of sizes have ridges on which no cost alone is better: what one has more, another has less.
            if !better {
                better = self.exchange(dials, &mut found, step)?;
            }
            if !better {
                step /= 2.0;
            }
        }
        Ok(found.0)
    }

    /// Makes a cost larger and another smaller; whether that is better.
    fn exchange(
        &mut self,
        dials: &[&Dial],
        found: &mut (Costs, f64),
        step: f64,
    ) -> Result<bool, ReplayError> {
        let mut better = false;
        for more in dials {
            for less in dials.iter().filter(|less| less.name != more.name) {
                let by = more.step(&found.0, step);
                better |= self.turn(found, &[(more, by), (less, -by)])?;
            }
        }
        Ok(better)
    }

    /// Changes costs by so many cycles, if that is better; whether it is.
    fn turn(
        &mut self,
        found: &mut (Costs, f64),
        turns: &[(&Dial, f64)],
    ) -> Result<bool, ReplayError> {
        let mut costs = found.0;
        for (dial, by) in turns {
            let value = (dial.of)(&mut costs);
            *value = (*value + by).max(0.0);
        }
        let left = self.left(&costs)?.filter(|left| *left < found.1);
        if let Some(left) = left {
            *found = (costs, left);
        }
        Ok(left.is_some())
    }

    /// Whether the traces say anything about a cost: whether a tenth more or less of it is noticed.
    fn determines(&mut self, dial: &Dial, best: Costs, least: f64) -> Result<bool, ReplayError> {
        for factor in [0.9, 1.1] {
            let mut costs = best;
            let value = (dial.of)(&mut costs);
            *value = *value * factor + (factor - 0.9) * dial.least;
            let left = self.left(&costs)?;
            if left.is_some_and(|left| (left - least).abs() > MOVES * least) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Picoseconds that are not explained, or too long.
fn unexplained(fits: &[Fit]) -> f64 {
    let each = fits
        .iter()
        .map(|fit| fit.more_ps as f64 + fit.less_ps as f64);
    each.sum()
}

#[cfg(test)]
mod tests;
