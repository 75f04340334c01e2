//! Efficiencies of `belljar trace stat`: on an ideal network, and of several runs.
//!
//! A replay without latency, with unlimited bandwidth and without work in MPI gives the time on an ideal network.
//! Called by `trace`.

use std::path::Path;

use anyhow::Result;
use belljar_analysis::{Efficiency, Scaling, Statistics};
use clap::ValueEnum;

use crate::command::predicting::replay::job::{AS_RUN, program_of};

/// Growth of the problem with the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ScalingChoice {
    /// The whole problem is the same.
    Strong,
    /// Each rank's part is the same.
    Weak,
}

impl ScalingChoice {
    fn scaling(self) -> Scaling {
        match self {
            Self::Strong => Scaling::Strong,
            Self::Weak => Scaling::Weak,
        }
    }
}

/// Adds the efficiencies that need the time on an ideal network.
///
/// # Errors
/// When the trace has no program that can be played.
pub(in crate::command) fn add_ideal(statistics: &mut Statistics, trace: &Path) -> Result<()> {
    let Some(efficiency) = &mut statistics.efficiency else {
        return Ok(());
    };
    let program = program_of(trace, AS_RUN)?;
    let outcome = belljar_replay::ideal(&program)?;
    if !outcome.stuck.is_empty() {
        efficiency.warnings.push(
            "calls never return on an ideal network: serialisation and transfer efficiency are unknown"
                .to_owned(),
        );
        return Ok(());
    }
    efficiency.on_ideal(outcome.main_ps);
    Ok(())
}

/// Compares each of several runs with the first. Without a choice, the scaling is detected and printed; if detection
/// fails, computation scaling is unknown.
pub(super) fn compare(found: &mut [(String, Statistics)], choice: Option<ScalingChoice>) {
    let first = found.first().and_then(|(_, own)| own.efficiency.clone());
    let Some(first) = first else {
        return;
    };
    let all = || found.iter().filter_map(|(_, own)| own.efficiency.as_ref());
    let Some(scaling) = choice.map_or_else(|| recognised(&first, all()), |it| Some(it.scaling()))
    else {
        warning!(
            "computation scaling is unknown: useful computation is neither the same of all ranks nor of each; use --scaling"
        );
        return;
    };
    if choice.is_none() {
        note!(
            "scaling is taken to be {}: useful computation is about the same of {}; --scaling says otherwise",
            match scaling {
                Scaling::Strong => "strong",
                Scaling::Weak => "weak",
            },
            match scaling {
                Scaling::Strong => "all ranks together",
                Scaling::Weak => "each rank",
            }
        );
    }
    for (_, own) in found {
        if let Some(efficiency) = &mut own.efficiency {
            efficiency.compare(&first, scaling);
        }
    }
}

/// The scaling of all runs against the first one, if it is the same for all. Runs with equal numbers of ranks fit either
/// scaling.
fn recognised<'e>(
    first: &Efficiency,
    all: impl Iterator<Item = &'e Efficiency>,
) -> Option<Scaling> {
    let mut scaling = None;
    let mut equal = true;
    for own in all.filter(|own| own.processes != first.processes) {
        equal = false;
        let found = first.scaling(own)?;
        if scaling.is_some_and(|scaling| scaling != found) {
            return None;
        }
        scaling = Some(found);
    }
    scaling.or_else(|| equal.then_some(Scaling::Strong))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(processes: u64, useful_ps: u64) -> Efficiency {
        Efficiency {
            processes,
            useful_ps,
            ..Efficiency::default()
        }
    }

    #[test]
    fn scaling_is_that_of_all_runs() {
        let first = of(4, 1000);
        let strong = [of(4, 1000), of(8, 1010), of(16, 1100)];
        assert_eq!(recognised(&first, strong.iter()), Some(Scaling::Strong));
        let weak = [of(4, 1000), of(8, 2010), of(16, 4100)];
        assert_eq!(recognised(&first, weak.iter()), Some(Scaling::Weak));
        let both = [of(4, 1000), of(8, 2010), of(16, 1100)];
        assert_eq!(recognised(&first, both.iter()), None);
        assert_eq!(recognised(&first, [of(8, 1500)].iter()), None);
        assert_eq!(
            recognised(&first, [of(4, 1500)].iter()),
            Some(Scaling::Strong)
        );
    }
}
