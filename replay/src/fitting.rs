//! Fitting of hosts' costs to traced calls.
//!
//! It minimizes the unexplained and overestimated time: the sum of the absolute residuals of calls that move data, over the given traces. One cost after another is
//! increased and decreased by a step that shrinks when no change helps (pattern search: R. Hooke and T. A. Jeeves, "Direct search solution of numerical and statistical
//! problems", J. ACM 8, 1961). Absolute values are summed, not squares, so that a few calls with unrelated waits do not dominate all others. Used by `belljar replay
//! calibrate`.

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
/// Least cycles on which the step is based.
const LEAST: f64 = 500.0;
/// The same for a cost per byte.
const LEAST_BY_BYTE: f64 = 0.01;
/// A cost is undetermined if a tenth more of it changes the unexplained time by no more than this share.
const MOVES: f64 = 0.0005;

/// A fitted cost.
struct Dial {
    name: &'static str,
    least: f64,
    of: fn(&mut Costs) -> &mut f64,
}

impl Dial {
    const fn new(name: &'static str, least: f64, of: fn(&mut Costs) -> &mut f64) -> Self {
        Self { name, least, of }
    }

    /// Returns the cycles by which it is changed: this share of it.
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

/// A traced program, and its setting. The search begins with the costs of the setting.
#[derive(Clone, Debug)]
pub struct Traced<'a> {
    /// The program.
    pub program: &'a Program,
    /// The setting of the trace.
    pub setting: Setting,
}

/// Fitted costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// The costs.
    pub costs: Costs,
    /// Each fitted cost.
    pub each: Vec<FittedCost>,
    /// Quality of the fit before, in the order of traces.
    pub before: Vec<Fit>,
    /// Quality of the fit with the fitted costs.
    pub after: Vec<Fit>,
    /// The number of times that the traces were played.
    pub plays: u32,
    /// True if it was interrupted: the costs are the best found by then.
    pub broken_off: bool,
}

/// A fitted cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FittedCost {
    /// Its name.
    pub name: &'static str,
    /// Cycles before the fit.
    pub was: f64,
    /// Cycles after the fit.
    pub is: f64,
    /// True if the traces determine it; otherwise, it is unchanged.
    pub determined: bool,
}

/// Fits the hosts' costs to traces, on all processors; their number does not change the result. `each` is called before the traces are played once more, and returns
/// whether to continue.
///
/// # Errors
/// Returns [`ReplayError`] if a setting does not fit its program.
pub fn fit_costs(traced: &[Traced<'_>], each: impl FnMut() -> bool) -> Result<Fitted, ReplayError> {
    let costs = traced.first().map_or_else(
        || Costs::of(belljar_trace::Implementation::Mpich),
        |of| of.setting.costs,
    );
    let mut search = FittingSearch {
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

struct FittingSearch<'a, 'p, E> {
    traced: &'a [Traced<'p>],
    each: E,
    /// Number of candidates that are played at a time, the later ones speculatively: they count only if those before are no better.
    ahead: usize,
    plays: u32,
    broken_off: bool,
}

impl<E: FnMut() -> bool> FittingSearch<'_, '_, E> {
    /// Returns the quality of the fit for these costs.
    fn fits(&mut self, costs: &Costs) -> Result<Vec<Fit>, ReplayError> {
        self.plays += 1;
        let mut fits = play_all(self.traced, &[*costs]);
        fits.pop().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Returns the picoseconds that these costs do not explain or overestimate; `None` if interrupted.
    fn left(&mut self, played: Result<Vec<Fit>, ReplayError>) -> Result<Option<f64>, ReplayError> {
        if self.broken_off || !(self.each)() {
            self.broken_off = true;
            return Ok(None);
        }
        self.plays += 1;
        Ok(Some(unexplained(&played?)))
    }

    /// Finds the best costs by changing these dials.
    fn fit(&mut self, dials: &[&Dial], best: Costs, least: f64) -> Result<Costs, ReplayError> {
        let mut found = (best, least);
        let mut step = FIRST;
        while step > LAST && !self.broken_off {
            let turns = dials.iter().flat_map(|dial| {
                // The opposite direction is tried only if this one is no better.
                [(vec![(*dial, 1.0)], false), (vec![(*dial, -1.0)], true)]
            });
            let mut better = self.turn(&mut found, &turns.collect::<Vec<_>>(), step)?;
            // Sums of absolute values have ridges on which no single change helps, only an exchange between two costs.
            if !better {
                better = self.exchange(dials, &mut found, step)?;
            }
            if !better {
                step /= 2.0;
            }
        }
        Ok(found.0)
    }

    /// Increases a cost and decreases another; returns true if that is better.
    fn exchange(
        &mut self,
        dials: &[&Dial],
        found: &mut (Costs, f64),
        step: f64,
    ) -> Result<bool, ReplayError> {
        let pairs = dials.iter().flat_map(|more| {
            let others = dials.iter().filter(|less| less.name != more.name);
            // Both change by the first one's step.
            others.map(|less| (vec![(*more, 1.0), (*less, -1.0)], false))
        });
        self.turn(found, &pairs.collect::<Vec<_>>(), step)
    }

    /// Applies changes one after the other, each if it is better; returns true if any is. An `other` direction is skipped if the change before it was applied.
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
                    // The later candidates were played from other costs.
                    break;
                }
            }
        }
        Ok(better)
    }

    /// Returns the dials that the traces determine: a tenth more or less of the cost has an effect.
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

/// Returns the costs after a change. All of its dials turn by shares of the first one's step.
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

/// Returns the picoseconds that are unexplained or overestimated.
fn unexplained(fits: &[Fit]) -> f64 {
    let each = fits
        .iter()
        .map(|fit| fit.more_ps as f64 + fit.less_ps as f64);
    each.sum()
}

#[cfg(test)]
mod tests;
