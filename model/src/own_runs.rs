//! Comparison of a model with the runs that it is learned from.
//!
//! Structure, peers and values are learned separately, and means replace values without a function. The model therefore generates the calls of each of its runs again;
//! differences become warnings.

use std::collections::BTreeMap;

use belljar_sim::figures::{counted, share};
use belljar_trace::{Event, Peer};

use crate::generate::{MOST_CALLS, generate};
use crate::model::{self, Distinction, LearnError, Model};
use crate::run::{Run, Traced};

/// Most differences in a warning.
const NAMED: usize = 4;

/// Learns the model of these runs, and compares it with them.
///
/// # Errors
/// Returns [`LearnError`] if a run is not suitable, or if a part of the program follows no rule.
pub fn learn(traced: &[Traced<'_>], scenario: Option<String>) -> Result<Model, LearnError> {
    let runs = model::read(traced)?;
    // Fewest differences first, then fewest classes of ranks.
    let score = |(model, found): &(Model, Vec<String>)| (found.len(), model.classes.len());
    let mut best: Option<(Model, Vec<String>)> = None;
    let mut why = None;
    // Calls that look alike are distinguished by more properties, until the model reproduces its own runs.
    for distinction in Distinction::ALL {
        match model::learn(&runs, scenario.clone(), distinction) {
            Ok(model) => {
                let found = runs.iter().filter_map(|run| compared(&model, run));
                let found: Vec<String> = found.collect();
                let own = (model, found);
                if best.as_ref().is_none_or(|best| score(&own) < score(best)) {
                    best = Some(own);
                }
                if best.as_ref().is_some_and(|best| score(best) <= (0, 1)) {
                    break;
                }
            }
            Err(error @ (LearnError::NoRule { .. } | LearnError::Kinds { .. })) => {
                why.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    let Some((mut model, found)) = best else {
        return Err(why.unwrap_or(LearnError::NoRuns));
    };
    model.warnings.extend(found);
    Ok(model)
}

/// Returns the warning about a run that the model does not reproduce.
fn compared(model: &Model, run: &Run) -> Option<String> {
    let of = format!(
        "the model does not make its own run of {} again",
        counted(u64::from(run.ranks), "rank")
    );
    let made = match generate(model, run.ranks, run.size, MOST_CALLS) {
        Ok(made) => made,
        Err(error) => return Some(format!("{of}: {error}")),
    };
    let mut by_rank: Vec<Vec<&Event>> = vec![Vec::new(); run.ranks as usize];
    for event in made.events() {
        by_rank.get_mut(event.rank as usize)?.push(event);
    }
    let mut differences = Differences::default();
    for (rank, (is, should)) in by_rank.iter().zip(&run.steps).enumerate() {
        let named = |is: &Event, should: &Event| is.function == should.function;
        let same = is.len() == should.len()
            && is
                .iter()
                .zip(should)
                .all(|(is, should)| named(is, &should.event));
        match same {
            true => is
                .iter()
                .zip(should)
                .for_each(|(is, should)| differences.add(is, &should.event)),
            false => {
                differences
                    .calls
                    .get_or_insert((rank, is.len(), should.len()));
            }
        }
    }
    let all = differences.words();
    let more = if all.len() > NAMED { " ..." } else { "" };
    let some: Vec<String> = all.into_iter().take(NAMED).collect();
    (!some.is_empty()).then(|| format!("{of}: {}{more}", some.join(", ")))
}

/// Differences between a run and its generated copy.
#[derive(Debug, Default)]
struct Differences {
    /// The first rank with different calls, and the numbers of calls of the model and the run.
    calls: Option<(usize, usize, usize)>,
    /// Number of differing calls, by value and function.
    values: BTreeMap<(&'static str, &'static str), u64>,
    /// The largest relative difference of bytes.
    bytes: f64,
}

impl Differences {
    /// Adds the differences of a call.
    fn add(&mut self, is: &Event, should: &Event) {
        let mut note = |what| *self.values.entry((what, should.name())).or_default() += 1;
        let far = |is: u64, should: u64| is.abs_diff(should) as f64 / should.max(1) as f64;
        let mut most: f64 = 0.0;
        for (is, should) in is.transfers.iter().zip(&should.transfers) {
            if is.peer != should.peer && is.peer != Peer::Any {
                note("peers");
            }
            if is.tag != should.tag {
                note("tags");
            }
            most = most.max(far(is.bytes, should.bytes));
        }
        for (is, should) in is.collectives.iter().zip(&should.collectives) {
            if is.root != should.root {
                note("roots");
            }
            for (is, should) in [(&is.sent, &should.sent), (&is.received, &should.received)] {
                let of = |amount: &belljar_trace::Amount| {
                    amount.bytes.unwrap_or_else(|| amount.pieces.iter().sum())
                };
                most = most.max(far(of(is), of(should)));
            }
        }
        if most > 0.0 {
            note("bytes");
            self.bytes = self.bytes.max(most);
        }
    }

    fn words(&self) -> Vec<String> {
        let calls = self.calls.map(|(rank, is, should)| {
            format!("rank {rank} makes {should} calls in the run and {is} by the model")
        });
        let values = self.values.iter().map(|((what, function), count)| {
            let most = match *what {
                "bytes" => format!(", by up to {}", share(self.bytes, 1)),
                _ => String::new(),
            };
            let calls = counted(*count, "call");
            format!("{what} of {function} differ in {calls}{most}")
        });
        calls.into_iter().chain(values).collect()
    }
}
