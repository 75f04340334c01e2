//! Hosts' costs that explain traced calls best.
//!
//! What calls took that costs and network do not explain, and what they explain too long, is made as small as it gets: the sum of the sizes of all residuals of
//! calls that move data, over the traces that are given. One cost after another is made larger and smaller by a step that shrinks when nothing
//! helps (pattern search: R. Hooke and T. A. Jeeves, "Direct search solution of numerical and statistical problems", J. ACM 8, 1961). The sum of sizes, not of squares, so that
//! a few calls that waited for something else do not move what all others say. Called by `belljar replay calibrate`.

/// Plays of traces on all processors.
mod plays;

use belljar_program::Program;
use belljar_sim::figures::significant;
use serde::Serialize;

use crate::calibration::Fit;
use crate::costs::Costs;
use crate::replay::{ReplayError, Setting};
use plays::{ahead, play_all};

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

const DIALS: [Dial; 17] = [
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
    Dial::new("shared_memory.send", LEAST, |costs| {
        &mut costs.shared_memory.send
    }),
    Dial::new("shared_memory.receive", LEAST, |costs| {
        &mut costs.shared_memory.receive
    }),
    Dial::new("shared_memory.get", LEAST, |costs| {
        &mut costs.shared_memory.get
    }),
    Dial::new("shared_memory.latency", LEAST, |costs| {
        &mut costs.shared_memory.latency
    }),
    Dial::new("shared_memory.copy", LEAST_BY_BYTE, |costs| {
        &mut costs.shared_memory.copy
    }),
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

/// Fits the hosts' costs to traces, on all processors; their number does not change the result. `each` is asked before the traces are played once more, and says whether to
/// continue.
///
/// # Errors
/// [`ReplayError`] when a setting does not fit its program.
pub fn fit_costs(traced: &[Traced<'_>], each: impl FnMut() -> bool) -> Result<Fitted, ReplayError> {
    let costs = traced.first().map_or_else(
        || Costs::of(belljar_trace::Implementation::Mpich),
        |of| of.setting.costs,
    );
    let mut search = Search {
        traced,
        each,
        ahead: ahead(traced.len()),
        plays: 0,
        broken_off: false,
    };
    let before = search.fits(&costs)?;
    let least = unexplained(&before);
    let dials = search.determined(costs, least)?;
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

/// A change of costs: dials, and the shares of a step by which each is turned.
type Change<'d> = Vec<(&'d Dial, f64)>;

struct Search<'a, 'p, E> {
    traced: &'a [Traced<'p>],
    each: E,
    /// Candidates that are played at a time, the later ones on trial: they count only if those before are no better.
    ahead: usize,
    plays: u32,
    broken_off: bool,
}

impl<E: FnMut() -> bool> Search<'_, '_, E> {
    /// How well costs explain the traces.
    fn fits(&mut self, costs: &Costs) -> Result<Vec<Fit>, ReplayError> {
        self.plays += 1;
        let mut fits = play_all(self.traced, &[*costs]);
        fits.pop().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Picoseconds that played costs do not explain, or too long; `None` when told to stop.
    fn left(&mut self, played: Result<Vec<Fit>, ReplayError>) -> Result<Option<f64>, ReplayError> {
        if self.broken_off || !(self.each)() {
            self.broken_off = true;
            return Ok(None);
        }
        self.plays += 1;
        Ok(Some(unexplained(&played?)))
    }

    /// The best costs, of which these dials change.
    fn fit(&mut self, dials: &[&Dial], best: Costs, least: f64) -> Result<Costs, ReplayError> {
        let mut found = (best, least);
        let mut step = FIRST;
        while step > LAST && !self.broken_off {
            let turns = dials.iter().flat_map(|dial| {
                // The other way only where this one is no better.
                [(vec![(*dial, 1.0)], false), (vec![(*dial, -1.0)], true)]
            });
            let mut better = self.turn(&mut found, &turns.collect::<Vec<_>>(), step)?;
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
        let pairs = dials.iter().flat_map(|more| {
            let others = dials.iter().filter(|less| less.name != more.name);
            // Both by the first one's step.
            others.map(|less| (vec![(*more, 1.0), (*less, -1.0)], false))
        });
        self.turn(found, &pairs.collect::<Vec<_>>(), step)
    }

    /// Makes changes one after the other, each if it is better; whether any is. A change that is an `other` way is left out where the one before it was made.
    fn turn(
        &mut self,
        found: &mut (Costs, f64),
        changes: &[(Change<'_>, bool)],
        step: f64,
    ) -> Result<bool, ReplayError> {
        let (mut at, mut better, mut made) = (0, false, false);
        while at < changes.len() && !self.broken_off {
            if std::mem::take(&mut made) && changes[at].1 {
                at += 1;
                continue;
            }
            let next = &changes[at..changes.len().min(at + self.ahead)];
            let costs: Vec<Costs> = next
                .iter()
                .map(|(change, _)| changed(found.0, change, step))
                .collect();
            for (played, costs) in play_all(self.traced, &costs).into_iter().zip(costs) {
                at += 1;
                let left = self.left(played)?.filter(|left| *left < found.1);
                if let Some(left) = left {
                    *found = (costs, left);
                    (better, made) = (true, true);
                    // Those after it were played from other costs.
                    break;
                }
            }
        }
        Ok(better)
    }

    /// The dials that the traces say anything about: a tenth more or less of the cost is noticed.
    fn determined(&mut self, best: Costs, least: f64) -> Result<Vec<&'static Dial>, ReplayError> {
        let trials = DIALS.iter().flat_map(|dial| [(dial, 0.9), (dial, 1.1)]);
        let mut trials = trials.collect::<Vec<_>>().into_iter().peekable();
        let mut dials: Vec<&Dial> = Vec::new();
        let noticed = |dials: &[&Dial], dial: &Dial| {
            let last = dials.last();
            last.is_some_and(|last| last.name == dial.name)
        };
        while trials.peek().is_some() && !self.broken_off {
            let next: Vec<(&Dial, f64)> = trials.by_ref().take(self.ahead).collect();
            let costs = next.iter().map(|(dial, factor)| {
                let mut costs = best;
                let value = (dial.of)(&mut costs);
                *value = *value * factor + (factor - 0.9) * dial.least;
                costs
            });
            let costs: Vec<Costs> = costs.collect();
            for (played, (dial, _)) in play_all(self.traced, &costs).into_iter().zip(next) {
                if noticed(&dials, dial) {
                    continue;
                }
                let left = self.left(played)?;
                if left.is_some_and(|left| (left - least).abs() > MOVES * least) {
                    dials.push(dial);
                }
            }
        }
        Ok(dials)
    }
}

/// Costs after a change. All of its dials turn by shares of the first one's step.
fn changed(mut costs: Costs, change: &Change<'_>, step: f64) -> Costs {
    let Some((first, _)) = change.first() else {
        return costs;
    };
    let by = first.step(&costs, step);
    for (dial, share) in change {
        let value = (dial.of)(&mut costs);
        *value = (*value + by * share).max(0.0);
    }
    costs
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
