//! Loops that no parameter was fitted to: their cycles on the processor, and by the model with a file.
//!
//! Each one mixes operations as compilers do, and stays in the first level. A file whose median factor is above the
//! limit does not describe the processor. `belljar calibrate processor` calls it before it writes a file.

/// The loops.
mod mixed;

use belljar_pipeline::processor::Processor;

use crate::CalibrateError;
use crate::clock::Clock;
use crate::loops::{self, Loop};
use crate::measure::cycles;
use crate::predict::Round;
use mixed::mixed;

/// The highest median factor of a file that is written.
pub const MOST_MEDIAN: f64 = 1.2;
/// Passes over the loops; the lowest cycles of each count.
const PASSES: usize = 3;

/// A loop on the processor and by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    /// The loop.
    pub name: String,
    /// Cycles of a round on the processor.
    pub measured: f64,
    /// Cycles of a round by the model.
    pub modelled: f64,
}

impl Tested {
    /// Modelled cycles over measured ones.
    pub fn ratio(&self) -> f64 {
        self.modelled / self.measured
    }

    /// The ratio or its inverse: at least 1.
    pub fn factor(&self) -> f64 {
        self.ratio().max(1.0 / self.ratio())
    }
}

/// The median of the factors; 1 without any.
pub fn median(all: &[Tested]) -> f64 {
    let mut factors: Vec<f64> = all.iter().map(Tested::factor).collect();
    factors.sort_by(f64::total_cmp);
    factors.get(factors.len() / 2).copied().unwrap_or(1.0)
}

/// Runs all loops of the test on this host, and by the model of `processor`.
///
/// # Errors
/// [`CalibrateError`] if the host refuses memory.
pub fn self_test(processor: &Processor) -> Result<Vec<Tested>, CalibrateError> {
    compared(processor, &mixed())
}

/// The geometric mean of the loops' cycles in the core of `to` over those in the core of `from`, by the model.
///
/// # Errors
/// [`CalibrateError`] if a loop cannot be assembled.
pub fn core_factor(from: &Processor, to: &Processor) -> Result<f64, CalibrateError> {
    let loops = mixed();
    let mut sum = 0.0;
    for one in &loops {
        let round = Round::of(one)?;
        sum += (round.cycles(to) / round.cycles(from)).ln();
    }
    Ok((sum / loops.len() as f64).exp())
}

/// Runs the loops that parameters were fitted to, as [`self_test`]; cycles are those of an operation.
///
/// # Errors
/// [`CalibrateError`] if the host refuses memory.
pub fn fitted_loops(processor: &Processor) -> Result<Vec<Tested>, CalibrateError> {
    let all: Vec<Loop> = loops::all()
        .into_iter()
        .filter(|one| one.extension.is_here() && one.name != loops::accesses::MISPREDICTED)
        .collect();
    compared(processor, &all)
}

fn compared(processor: &Processor, loops: &[Loop]) -> Result<Vec<Tested>, CalibrateError> {
    let mut clock = Clock::new()?;
    let mut all = Vec::new();
    for one in loops {
        let measured = (0..PASSES).map(|_| cycles(&mut clock, one));
        let measured: Result<Vec<f64>, _> = measured.collect();
        all.push(Tested {
            name: one.name.to_owned(),
            measured: measured?.into_iter().fold(f64::INFINITY, f64::min),
            modelled: Round::of(one)?.cycles(processor) / f64::from(one.operations),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested(measured: f64, modelled: f64) -> Tested {
        Tested {
            name: "x".to_owned(),
            measured,
            modelled,
        }
    }

    #[test]
    fn factors_are_at_least_one_and_the_median_is_the_middle_one() {
        let all = [tested(10.0, 5.0), tested(10.0, 10.0), tested(10.0, 12.5)];
        assert_eq!(all[0].ratio(), 0.5);
        assert_eq!(all[0].factor(), 2.0);
        assert_eq!(median(&all), 1.25);
        assert_eq!(median(&[]), 1.0);
    }

    #[test]
    fn the_factor_of_cores_is_that_of_their_loops() {
        let zen5 = Processor::built_in("zen5").unwrap();
        assert_eq!(core_factor(&zen5, &zen5).unwrap(), 1.0);
        let mut narrow = zen5.clone();
        (narrow.core.dispatch, narrow.core.retire) = (1, 1);
        let factor = core_factor(&zen5, &narrow).unwrap();
        assert!((1.2..8.0).contains(&factor), "{factor}");
        let back = core_factor(&narrow, &zen5).unwrap();
        assert!((factor * back - 1.0).abs() < 1e-9, "{factor} {back}");
    }

    /// The model runs every loop of the test on any host.
    #[test]
    fn every_loop_has_cycles_by_the_model() {
        let processor = Processor::built_in("zen5").unwrap();
        for one in mixed() {
            let cycles = Round::of(&one).unwrap().cycles(&processor);
            assert!((1.0..1000.0).contains(&cycles), "{}: {cycles}", one.name);
        }
    }
}
