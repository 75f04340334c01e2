//! Own work of a traced run on another processor: one factor for all of it, from the parts of its cycles.
//!
//! The factor never depends on the host. Its warnings name each part with its factor, and the differences between the
//! processors that it cannot know. Called by `job`, for `replay`, `simulate` and `model fit`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use belljar_analysis::{CpiPart, CpiStat, Filter};
use belljar_calibrate::self_test::core_factor;
use belljar_files::read_input_text;
use belljar_pipeline::processor::{LineCost, MemoryParameters, Processor};
use belljar_sim::figures::{decimal, percent};

/// The file with the cycles of nodes by cause.
const SUMMARY_FILE: &str = "summary.json";

/// Shares of a run's own work, and the factor of each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct WorkParts {
    core: WorkPart,
    caches: WorkPart,
    memory: WorkPart,
    bandwidth: WorkPart,
}

/// A part of the own work: cycles on the traced processor, and their factor on another one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct WorkPart {
    cycles: f64,
    factor: f64,
}

impl WorkParts {
    fn all(&self) -> [(&'static str, WorkPart); 4] {
        [
            ("core", self.core),
            ("caches", self.caches),
            ("memory", self.memory),
            ("bandwidth", self.bandwidth),
        ]
    }

    /// Cycles on the other processor over those on the traced one; 1 without any.
    fn factor(&self) -> f64 {
        let sum = |value: fn(WorkPart) -> f64| self.all().map(|(_, part)| value(part)).iter().sum();
        let before: f64 = sum(|part| part.cycles);
        let after: f64 = sum(|part| part.cycles * part.factor);
        if before > 0.0 { after / before } else { 1.0 }
    }

    /// The parts in words, without empty ones.
    fn words(&self) -> String {
        let all: f64 = self.all().iter().map(|(_, part)| part.cycles).sum();
        let parts = self.all().into_iter().filter(|(_, part)| part.cycles > 0.0);
        let parts = parts.map(|(name, part)| {
            let share = percent(part.cycles as u64, all.max(1.0) as u64);
            format!("{name} {share} x {}", decimal(part.factor, 2))
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// The factor of own work on another processor, with its warnings.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::command) struct Rescaled {
    pub(in crate::command) factor: f64,
    /// True if the run had a processor model.
    pub(in crate::command) modelled: bool,
    pub(in crate::command) warnings: Vec<String>,
}

/// Own work of a run on `wanted`, a processor's name or file. `traced` is the processor of the run with its folder, if
/// it has one; `clocks` is the clock of the run over that of the replay.
pub(super) fn rescaled(
    trace: &Path,
    traced: Option<(&str, &Path)>,
    wanted: &str,
    clocks: f64,
) -> Result<Rescaled> {
    let to = Processor::load(wanted, Path::new("")).context("--processor")?;
    let Some((name, folder)) = traced else {
        let ratio = format!(
            "the run was traced without a processor model, so --processor {wanted} rescales own work by the ratio of \
             clocks alone ({}); trace it with `--processor` for its parts",
            decimal(clocks, 3)
        );
        return Ok(Rescaled {
            factor: clocks,
            modelled: false,
            warnings: [ratio].into_iter().chain(to.doubt()).collect(),
        });
    };
    let from = Processor::load(name, folder)?;
    let known = belljar_archive::TraceReader::open(trace)?;
    let known = known.header().processors();
    // A run with a sample of pages names it after the processor.
    let is_from = |name: &String| name.starts_with(&from.identity());
    if !known.is_empty() && !known.iter().any(is_from) {
        bail!(
            "the run's processor is {}, but {name} is now {}; use the file of the run",
            known.join(", "),
            from.identity()
        );
    }
    let queued = queued_share(&trace.with_file_name(SUMMARY_FILE));
    let parts = parts(
        &cycles_of(trace)?,
        queued,
        &from,
        &to,
        core_factor(&from, &to)?,
    );
    let factor = parts.factor() * clocks;
    let mut warnings = vec![format!(
        "own work takes {} times as long on {} as on {}: {}; clocks x {}. One factor is used for all of it; the core's is \
         the mean of the self-test's loops by the model",
        decimal(factor, 3),
        to.identity(),
        from.identity(),
        parts.words(),
        decimal(clocks, 3)
    )];
    warnings.extend(extrapolations(&from.caches, &to.caches));
    warnings.extend(doubts(&from, &to));
    Ok(Rescaled {
        factor,
        modelled: true,
        warnings,
    })
}

/// The cycles of all processes of a trace.
fn cycles_of(trace: &Path) -> Result<CpiStat> {
    let ratio = belljar_analysis::Ratio {
        cycles: 1,
        instructions: 1,
    };
    let (found, _) = belljar_analysis::cpi(trace, &Filter::default(), ratio)?;
    Ok(found.all)
}

/// The duration of a traced run whose own work takes `factor` times as long, over its own: idle processors and MPI
/// calls take as long as before.
pub(in crate::command) fn duration_factor(trace: &Path, factor: f64) -> Result<f64> {
    Ok(stretched(&cycles_of(trace)?, factor))
}

fn stretched(all: &CpiStat, factor: f64) -> f64 {
    let cycles = |part: Option<CpiPart>| part.map_or(0.0, |part| part.cycles as f64);
    let own = all.core.cycles as f64 + cycles(all.caches) + cycles(all.memory);
    let total = own + cycles(all.idle) + all.mpi.cycles as f64;
    if total > 0.0 {
        1.0 + own * (factor - 1.0) / total
    } else {
        1.0
    }
}

/// The parts of own work with their factors. `queued` is the share of the memory's cycles that waited for other lines.
fn parts(found: &CpiStat, queued: f64, from: &Processor, to: &Processor, core: f64) -> WorkParts {
    let cycles =
        |part: &Option<belljar_analysis::CpiPart>| part.map_or(0.0, |part| part.cycles as f64);
    let memory = cycles(&found.memory);
    let part = |cycles, factor| WorkPart { cycles, factor };
    let levels = from.caches.levels.len().min(to.caches.levels.len());
    let near = (1..levels).map(|level| (from.caches.cost_of(level), to.caches.cost_of(level)));
    let far = [(from.caches.beyond, to.caches.beyond)];
    let latency = |cost: &LineCost| f64::from(cost.latency);
    let rate = |cost: &LineCost| (cost.line_ticks + cost.miss_ticks) as f64;
    WorkParts {
        core: part(found.core.cycles as f64, core),
        caches: part(cycles(&found.caches), mean_factor(near, latency)),
        memory: part(memory * (1.0 - queued), mean_factor(far, latency)),
        bandwidth: part(memory * queued, mean_factor(far, rate)),
    }
}

/// The geometric mean of a value's factors; 1 without any.
fn mean_factor(
    pairs: impl IntoIterator<Item = (LineCost, LineCost)>,
    value: impl Fn(&LineCost) -> f64,
) -> f64 {
    let factors = pairs
        .into_iter()
        .map(|(from, to)| value(&to).max(1.0) / value(&from).max(1.0));
    let (count, sum) = factors.fold((0.0, 0.0), |(count, sum), factor: f64| {
        (count + 1.0, sum + factor.ln())
    });
    if count > 0.0 {
        (sum / count).exp()
    } else {
        1.0
    }
}

/// The share of waiting for lines in the cycles of memory, from the run's summary; none if it has no such cycles.
fn queued_share(summary: &Path) -> f64 {
    let read = || -> Option<f64> {
        let text = read_input_text(summary).ok()?;
        let summary: serde_json::Value = serde_json::from_str(&text).ok()?;
        let nodes = summary.get("nodes")?.as_array()?;
        let sum = |key: &str| -> f64 {
            let each = nodes
                .iter()
                .filter_map(|node| node.get("processor_time")?.get(key)?.as_u64());
            each.sum::<u64>() as f64
        };
        let (memory, queued) = (sum("memory"), sum("bandwidth"));
        (memory + queued > 0.0).then(|| queued / (memory + queued))
    };
    read().unwrap_or(0.0)
}

/// Warnings about files that were never measured.
fn doubts(from: &Processor, to: &Processor) -> Vec<String> {
    let mut all: Vec<String> = [from, to].iter().filter_map(|one| one.doubt()).collect();
    all.dedup();
    all
}

/// Differences between processors that no factor accounts for.
fn extrapolations(from: &MemoryParameters, to: &MemoryParameters) -> Vec<String> {
    let sizes = |parameters: &MemoryParameters| -> Vec<String> {
        let levels = parameters.levels.iter();
        levels
            .map(|level| format!("{} KiB", level.bytes >> 10))
            .collect()
    };
    let (before, after) = (sizes(from), sizes(to));
    let mut all = Vec::new();
    if before != after {
        all.push(format!(
            "the processors' caches differ ({} and {}): the replay extrapolates, with the misses of the run",
            before.join(", "),
            after.join(", ")
        ));
    }
    if from.overlap != to.overlap || from.prefetch != to.prefetch {
        all.push(
            "the processors overlap or prefetch misses differently: the replay extrapolates, with the overlap of the run"
                .to_owned(),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(core: u64, caches: u64, memory: u64) -> CpiStat {
        let part = |cycles| CpiPart {
            cycles,
            per_instruction: 0.0,
        };
        CpiStat {
            job: None,
            rank: None,
            node: None,
            instructions: 1000,
            total: part(core + caches + memory),
            core: part(core),
            caches: Some(part(caches)),
            memory: Some(part(memory)),
            idle: Some(part(0)),
            mpi: part(0),
        }
    }

    /// By hand: 600 core cycles as before, 100 of caches as before, 300 of memory of which a quarter waits for lines:
    /// 225 at twice the latency and 75 at three times the ticks.
    #[test]
    fn each_part_has_its_own_factor() {
        let from = Processor::built_in("zen5").unwrap();
        let mut to = from.clone();
        to.caches.beyond.latency *= 2;
        to.caches.beyond.line_ticks *= 3;
        to.caches.beyond.miss_ticks *= 3;
        let parts = parts(&stat(600, 100, 300), 0.25, &from, &to, 1.0);
        let expected = (600.0 + 100.0 + 450.0 + 225.0) / 1000.0;
        assert!(
            (parts.factor() - expected).abs() < 1e-12,
            "{}",
            parts.factor()
        );
        assert_eq!(
            parts.words(),
            "core 60.0 % x 1.00, caches 10.0 % x 1.00, memory 22.5 % x 2.00, bandwidth 7.5 % x 3.00"
        );
        assert_eq!(
            super::parts(&stat(0, 0, 0), 0.0, &from, &to, 1.0).factor(),
            1.0
        );
        let slower = super::parts(&stat(600, 0, 0), 0.0, &from, &to, 1.5);
        assert_eq!(slower.factor(), 1.5);
    }

    /// By hand: of 1000 cycles 600 are own work, which takes half as long; 100 idle and 300 in MPI stay.
    #[test]
    fn a_run_is_as_long_as_its_rescaled_work_and_the_rest() {
        let mut all = stat(400, 50, 150);
        let part = |cycles| CpiPart {
            cycles,
            per_instruction: 0.0,
        };
        (all.idle, all.mpi) = (Some(part(100)), part(300));
        assert!((stretched(&all, 0.5) - 0.7).abs() < 1e-12);
        assert!((stretched(&all, 2.0) - 1.6).abs() < 1e-12);
        assert_eq!(stretched(&stat(0, 0, 0), 2.0), 1.0);
    }

    #[test]
    fn the_factor_of_caches_is_the_mean_of_levels_that_both_have() {
        let cost = |latency| LineCost {
            latency,
            ..LineCost::default()
        };
        let pairs = [(cost(10), cost(20)), (cost(40), cost(20))];
        assert!((mean_factor(pairs, |cost| cost.latency.into()) - 1.0).abs() < 1e-12);
        let pairs = [(cost(10), cost(40)), (cost(40), cost(40))];
        assert!((mean_factor(pairs, |cost| cost.latency.into()) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn other_sizes_and_overlap_are_extrapolations() {
        let from = Processor::built_in("zen5").unwrap().caches;
        assert!(extrapolations(&from, &from).is_empty());
        let mut to = from.clone();
        to.levels.pop();
        to.overlap.hidden = 1;
        let all = extrapolations(&from, &to);
        assert_eq!(all.len(), 2);
        assert!(all[0].contains("8192 KiB, 16384 KiB and 48 KiB"), "{all:?}");
    }

    #[test]
    fn a_run_without_a_processor_is_rescaled_by_its_clock() {
        let found = rescaled(Path::new("none"), None, "zen5", 0.5).unwrap();
        assert_eq!(found.factor, 0.5);
        assert!(found.warnings[0].contains("by the ratio of clocks alone (0.500)"));
        assert_eq!(found.warnings.len(), 1, "zen5 was measured");
        let unmeasured = rescaled(Path::new("none"), None, "zen4", 1.0).unwrap();
        assert!(unmeasured.warnings[1].contains("nobody measured the processor file zen4"));
        let error = rescaled(Path::new("none"), None, "zen9", 1.0).unwrap_err();
        assert!(format!("{error:#}").contains("zen9"), "{error:#}");
    }
}
