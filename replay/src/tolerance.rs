//! Tolerance of a program to a worse network: the added latency, and the lost bandwidth, that slow it down by a given share.
//!
//! The method follows S. Shen, L. Chapuis, T. Bonato, P. Okanovic, D. De Sensi, S. Di Girolamo and T. Hoefler, "LLAMP: Assessing
//! Network Latency Tolerance of HPC Applications with Linear Programming" (SC 2024). They solve a linear program over the
//! dependence graph. Here the program is played again in the LogGOPS model. The time of its main part, which is piecewise linear
//! in latency and in the time of a byte, is bracketed by bisection. Used by `belljar replay --tolerance`.

use std::collections::BTreeMap;

use belljar_networks::Parameters;
use belljar_program::Program;
use belljar_sim::Span;
use serde::Serialize;

use crate::calibration::Calibration;
use crate::replay::{NetworkModel, ReplayError, Setting, replay};

/// The slowdowns for which tolerances are computed, in thousandths.
pub const SLOWDOWNS: [u64; 3] = [10, 20, 50];
/// Added latency for computing the sensitivity: a nanosecond, in picoseconds.
const STEP: u64 = 1000;
/// Units of the factor by which a byte takes longer.
const UNIT: u64 = 1_000_000;
/// A bracket narrower than this part of its upper end suffices.
const NARROW: u64 = 2000;
/// Most steps of a bisection.
const MOST_STEPS: usize = 48;
/// Largest latency that is tried, as a multiple of the main part, and largest factor of bandwidth.
const MOST_TIMES: u64 = 64;
const MOST_FACTOR: u64 = 1_000_000;

/// The tolerance of a program to latency and bandwidth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tolerance {
    /// The main part in the model, in picoseconds.
    pub main_ps: u64,
    /// The latency of a message in the model, in picoseconds.
    pub latency_ps: u64,
    /// The bandwidth of a host in the model, in bits a second.
    pub bandwidth: u64,
    /// Picoseconds by which the main part grows for each picosecond of latency: the messages on its critical path.
    pub latency_sensitivity: f64,
    /// The resulting share of latency in the main part.
    pub latency_share: f64,
    /// Tolerances by slowdown.
    pub levels: Vec<LevelTolerance>,
}

/// The worse networks that slow a program down by one share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LevelTolerance {
    /// The slowdown in thousandths.
    pub slowdown_thousandths: u64,
    /// Added latency in picoseconds; `None` if no latency slows the program down that much.
    pub added_latency_ps: Option<u64>,
    /// The latency as a multiple of the model's; `None` also if that is 0.
    pub latency_factor: Option<f64>,
    /// The factor by which bandwidth is divided; `None` if no bandwidth slows the program down that much.
    pub bandwidth_divisor: Option<f64>,
    /// The remaining bandwidth, in bits a second.
    pub bandwidth: Option<u64>,
}

/// Finds the tolerance of a program in a setting. A setting with another model than LogGOPS has none.
///
/// # Errors
/// The same as for [`replay`].
pub fn tolerance(
    program: &Program,
    calibration: &Calibration,
    setting: &Setting,
    mut each: impl FnMut() -> bool,
) -> Result<Option<Tolerance>, ReplayError> {
    let NetworkModel::LogGops(hosts, parameters) = setting.network else {
        return Ok(None);
    };
    let mut complete = true;
    let mut played = |parameters: Parameters| -> Result<u64, ReplayError> {
        let setting = Setting {
            network: NetworkModel::LogGops(hosts, parameters),
            ..setting.clone()
        };
        let outcome = replay(program, calibration, &setting, &mut each)?;
        complete &= !outcome.broken_off && outcome.stuck.is_empty();
        Ok(outcome.main_ps)
    };
    let latency = parameters.latency.as_ps();
    let mut slower = Curve::new(|added| {
        played(Parameters {
            latency: Span::from_ps(latency.saturating_add(added)),
            ..parameters
        })
    });
    let main = slower.at(0)?;
    let sensitivity = slower.at(STEP)?.saturating_sub(main) as f64 / STEP as f64;
    let most = main.saturating_mul(MOST_TIMES).max(STEP);
    let mut added = Vec::new();
    for slowdown in SLOWDOWNS {
        added.push(slower.reaches(target(main, slowdown), (most / 4096).max(1), most)?);
    }
    let mut narrower = Curve::new(|more| {
        let divided = u128::from(parameters.bandwidth) * u128::from(UNIT);
        let bandwidth = divided / u128::from(more.saturating_add(UNIT));
        played(Parameters {
            bandwidth: u64::try_from(bandwidth).unwrap_or(u64::MAX).max(1),
            ..parameters
        })
    });
    let mut divided = Vec::new();
    for slowdown in SLOWDOWNS {
        let most = UNIT * MOST_FACTOR;
        divided.push(narrower.reaches(target(main, slowdown), UNIT / 16, most)?);
    }
    if !complete {
        return Ok(None);
    }
    let all = SLOWDOWNS.into_iter().zip(added).zip(divided);
    let levels = all.map(|((slowdown, added), divided)| {
        let divisor = divided.map(|more| (UNIT + more) as f64 / UNIT as f64);
        LevelTolerance {
            slowdown_thousandths: slowdown,
            added_latency_ps: added,
            latency_factor: added
                .filter(|_| latency > 0)
                .map(|added| rounded((latency + added) as f64 / latency as f64)),
            bandwidth_divisor: divisor.map(rounded),
            bandwidth: divisor.map(|divisor| (parameters.bandwidth as f64 / divisor) as u64),
        }
    });
    Ok(Some(Tolerance {
        main_ps: main,
        latency_ps: latency,
        bandwidth: parameters.bandwidth,
        latency_sensitivity: sensitivity,
        latency_share: rounded(sensitivity * latency as f64 / main.max(1) as f64),
        levels: levels.collect(),
    }))
}

/// Returns the main part with a slowdown in thousandths.
fn target(main: u64, slowdown: u64) -> u64 {
    let more = u128::from(main) * u128::from(slowdown) / 1000;
    main.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
        .max(main.saturating_add(1))
}

/// Rounds to six decimal places.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// A time that grows with a parameter, with its known points.
struct Curve<F> {
    time: F,
    known: BTreeMap<u64, u64>,
}

impl<F: FnMut(u64) -> Result<u64, ReplayError>> Curve<F> {
    fn new(time: F) -> Self {
        Self {
            time,
            known: BTreeMap::new(),
        }
    }

    fn at(&mut self, parameter: u64) -> Result<u64, ReplayError> {
        if let Some(time) = self.known.get(&parameter) {
            return Ok(*time);
        }
        let time = (self.time)(parameter)?;
        self.known.insert(parameter, time);
        Ok(time)
    }

    /// Returns the least parameter at which the time is `target`; `None` if it is less even at `most`. `first` is tried first.
    fn reaches(&mut self, target: u64, first: u64, most: u64) -> Result<Option<u64>, ReplayError> {
        let mut high = first;
        while self.at(high)? < target {
            if high >= most {
                return Ok(None);
            }
            high = high.saturating_mul(4).min(most);
        }
        let known = self.known.range(..high).rev();
        let mut low = known
            .into_iter()
            .find(|(_, time)| **time < target)
            .map_or(0, |(parameter, _)| *parameter);
        let above = self.known.range(low..=high);
        high = above
            .into_iter()
            .find(|(_, time)| **time >= target)
            .map_or(high, |(parameter, _)| *parameter);
        for step in 0..MOST_STEPS {
            if high - low <= (high / NARROW).max(1) {
                break;
            }
            let middle = match step % 3 {
                2 => low + (high - low) / 2,
                _ => self.between(low, high, target)?,
            };
            match self.at(middle)? < target {
                true => low = middle,
                false => high = middle,
            }
        }
        self.between(low, high, target).map(Some)
    }

    /// Returns the parameter at which a straight line between two points has the time `target`.
    fn between(&mut self, low: u64, high: u64, target: u64) -> Result<u64, ReplayError> {
        let (below, above) = (self.at(low)?, self.at(high)?);
        let rise = u128::from(above.saturating_sub(below)).max(1);
        let part = u128::from(target.saturating_sub(below)) * u128::from(high - low) / rise;
        let middle = low.saturating_add(u64::try_from(part).unwrap_or(u64::MAX));
        Ok(middle.clamp(
            low + u64::from(high - low > 1),
            high.max(low + 1) - u64::from(high - low > 1),
        ))
    }
}

#[cfg(test)]
mod tests {
    use belljar_program::Builder;
    use belljar_sim::Frequency;
    use belljar_trace::Implementation;

    use super::*;
    use crate::costs::Costs;

    const US: u64 = 1_000_000;

    /// Two ranks that have started MPI: the main part begins.
    fn started() -> Builder {
        let mut builder = Builder::new(2);
        for rank in 0..2 {
            builder.call(rank, "MPI_Init", 0);
        }
        builder
    }

    /// Ranks 0 and 1 exchange a message of this many bytes for this many rounds; rank 0 works for `work` before each.
    fn pingpong(rounds: u32, bytes: u64, work: u64) -> Program {
        let mut builder = started();
        for _ in 0..rounds {
            builder.work(0, work);
            for (from, to) in [(0, 1), (1, 0)] {
                let slot = builder.send(from, to, 7, bytes);
                builder.wait(from, slot);
                builder.call(from, "MPI_Send", 0);
                let slot = builder.receive(to, from, 7);
                builder.wait(to, slot);
                builder.call(to, "MPI_Recv", 0);
            }
        }
        builder.finish()
    }

    fn setting(latency: Span, bandwidth: u64) -> Setting {
        let parameters = Parameters {
            latency,
            gap: Span::ZERO,
            bandwidth,
        };
        let costs = Costs::of(Implementation::Mpich);
        Setting {
            network: NetworkModel::LogGops(2, parameters),
            costs: Costs::none(&costs),
            clocks: vec![Frequency::from_hz(1_000_000_000).unwrap()],
            hosts: vec![0, 1],
            scale: 1.0,
        }
    }

    fn of(program: &Program, setting: &Setting) -> Tolerance {
        let nothing = Calibration::nothing(program);
        let found = tolerance(program, &nothing, setting, || true).unwrap();
        found.unwrap()
    }

    #[test]
    fn a_pingpong_tolerates_its_slowdown_over_its_messages() {
        let (rounds, work) = (20, 100 * US);
        let program = pingpong(rounds, 8, work);
        let setting = setting(Span::from_us(2), 1_000_000_000_000_000);
        let found = of(&program, &setting);
        // 40 messages of 2 us, and 20 times 100 us.
        let whole = 20 * (100 + 4) * US;
        assert!(found.main_ps.abs_diff(whole) < 40 * 1000, "{found:?}");
        assert_eq!(found.latency_sensitivity, 40.0);
        for level in &found.levels {
            let expected = found.main_ps * level.slowdown_thousandths / 1000 / 40;
            let added = level.added_latency_ps.unwrap();
            assert!(
                added.abs_diff(expected) <= 1 + expected / 1000,
                "{added} {expected}"
            );
            let factor = level.latency_factor.unwrap();
            let expected = 1.0 + added as f64 / (2.0 * US as f64);
            assert!((factor - expected).abs() < 1e-5, "{factor}");
        }
    }

    #[test]
    fn less_bandwidth_slows_down_by_the_time_of_the_bytes() {
        // A frame's 1448 bytes are 1538 on the wire.
        let program = pingpong(10, 1448 - 16, 100 * US);
        let found = of(&program, &setting(Span::ZERO, 1_000_000_000));
        let bytes = 20 * 1538 * 8 * 1000;
        assert_eq!(found.main_ps, 10 * 100 * US + bytes);
        assert_eq!(found.latency_share, 0.0);
        for level in &found.levels {
            let more = found.main_ps as f64 * level.slowdown_thousandths as f64 / 1000.0;
            let expected = 1.0 + more / bytes as f64;
            let divisor = level.bandwidth_divisor.unwrap();
            assert!(
                (divisor - expected).abs() < expected / 1000.0,
                "{divisor} {expected}"
            );
            assert_eq!(level.latency_factor, None);
        }
    }

    #[test]
    fn hidden_latency_is_tolerated_until_it_shows() {
        // Rank 1 takes a message that rank 0 sent 50 us before: latency has an effect beyond 48 us.
        let mut builder = started();
        let slot = builder.send(0, 1, 7, 8);
        builder.wait(0, slot);
        builder.call(0, "MPI_Send", 0);
        builder.work(1, 50 * US);
        let slot = builder.receive(1, 0, 7);
        builder.wait(1, slot);
        builder.call(1, "MPI_Recv", 0);
        let program = builder.finish();
        let found = of(&program, &setting(Span::from_us(2), 1_000_000_000_000_000));
        assert_eq!(found.latency_sensitivity, 0.0);
        // The first slowdown is 1 % of 50 us.
        let added = found.levels[0].added_latency_ps.unwrap();
        assert!(added.abs_diff(48 * US + US / 2) < US / 10, "{added}");
    }

    #[test]
    fn a_program_without_messages_tolerates_any_network() {
        let mut builder = Builder::new(2);
        for rank in 0..2 {
            builder.work(rank, 50 * US);
            builder.call(rank, "MPI_Wtime", US);
            builder.work(rank, 50 * US);
            builder.call(rank, "MPI_Wtime", US);
        }
        let program = builder.finish();
        let found = of(&program, &setting(Span::from_us(2), 1_000_000_000));
        for level in &found.levels {
            assert_eq!(level.added_latency_ps, None);
            assert_eq!(level.bandwidth_divisor, None);
        }
    }
}
