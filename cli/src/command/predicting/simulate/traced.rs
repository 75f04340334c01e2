//! Traffic of traced runs, for jobs of the same kind.
//!
//! Messages are those of the MPI library if the run's image has its tables, otherwise the program's calls. Their bytes are spread
//! over the program's time. Each run is read once. Called by `simulate`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_analysis::{Filter, Matrix, TrafficOf, traffic};
use belljar_cli::mix::{TracedTraffic, TrafficProvider};
use belljar_simulate::{JobTraffic, RankFlow};

use crate::command::predicting::replay::job::{
    JobArguments, Model as NetworkModel, duration_factor,
};
use crate::command::results::trace::collected::refuse;
use crate::command::results::trace::tables::tables_of_run;
use crate::command::results::trace::trace_file;

/// Traced runs that were read.
#[derive(Default)]
pub(super) struct Runs {
    known: BTreeMap<PathBuf, TracedTraffic>,
    /// Runs by number.
    directories: Vec<PathBuf>,
    /// The processor of their own work, if it is not that of the runs.
    processor: Option<String>,
    /// Warnings about that work, by number of the run.
    warnings: Vec<Vec<String>>,
}

impl Runs {
    /// No runs yet, with own work on another processor if one is given.
    pub(super) fn on_processor(processor: Option<&str>) -> Self {
        Self {
            processor: processor.map(str::to_owned),
            ..Self::default()
        }
    }

    /// The processor of the runs' own work, if it is another one.
    pub(super) fn processor(&self) -> Option<&str> {
        self.processor.as_deref()
    }

    /// Warnings about the rescaled work of these runs, each once.
    pub(super) fn warnings(&self, mut runs: Vec<usize>) -> Vec<String> {
        runs.sort_unstable();
        runs.dedup();
        let each = runs.into_iter().filter_map(|run| self.warnings.get(run));
        let mut all: Vec<String> = Vec::new();
        for warning in each.flatten() {
            if !all.contains(warning) {
                all.push(warning.clone());
            }
        }
        all
    }

    /// The duration of a run on the processor, over the traced one.
    fn stretch(&mut self, directory: &Path, trace: &Path) -> anyhow::Result<f64> {
        let arguments = JobArguments::over(directory, NetworkModel::Packet)
            .on_processor(self.processor.as_deref());
        let Some(rescaled) = arguments.rescaled()? else {
            self.warnings.push(Vec::new());
            return Ok(1.0);
        };
        let factor = duration_factor(trace, rescaled.factor)?;
        self.warnings.push(rescaled.warnings);
        Ok(factor)
    }

    /// The directory of the run of this number.
    pub(super) fn directory(&self, number: usize) -> Option<&Path> {
        self.directories.get(number).map(PathBuf::as_path)
    }
}

impl TrafficProvider for Runs {
    fn traffic(&mut self, directory: &Path) -> Result<TracedTraffic, String> {
        if let Some(known) = self.known.get(directory) {
            return Ok(known.clone());
        }
        let trace = trace_file(directory);
        refuse(&trace, "the traffic of a job").map_err(|error| error.to_string())?;
        let tables = tables_of_run(&trace, None).ok();
        let read = traffic(
            &trace,
            &Filter::default(),
            TrafficOf::default(),
            tables.as_ref(),
        );
        let (matrix, _) = read.map_err(|error| error.to_string())?;
        let stretch = self.stretch(directory, &trace);
        let stretch = stretch.map_err(|error| format!("{error:#}"))?;
        let of = of(&matrix, stretch, self.directories.len())?;
        self.directories.push(directory.to_owned());
        self.known.insert(directory.to_owned(), of.clone());
        Ok(of)
    }
}

/// A traced run's traffic as flows, over `stretch` times its duration.
fn of(matrix: &Matrix, stretch: f64, run: usize) -> Result<TracedTraffic, String> {
    let jobs = matrix.pairs.iter().flat_map(|pair| [pair.job, pair.to_job]);
    if jobs.flatten().any(|job| job > 0) {
        return Err("the run has several MPI programs; a job of a mix is one".to_owned());
    }
    let span = match stretch == 1.0 {
        true => matrix.span_ps,
        false => (matrix.span_ps as f64 * stretch) as u64,
    };
    if span == 0 {
        return Err("the run has no calls that take time".to_owned());
    }
    let flows = matrix.pairs.iter().filter_map(|pair| {
        let rate = u128::from(pair.bytes) * 8 * 1_000_000_000_000 / u128::from(span);
        Some(RankFlow {
            from: pair.from,
            to: pair.to?,
            rate: u64::try_from(rate).unwrap_or(u64::MAX),
        })
    });
    let flows: Vec<RankFlow> = flows.filter(|flow| flow.from != flow.to).collect();
    let last = flows.iter().flat_map(|flow| [flow.from, flow.to]).max();
    let ranks = last.ok_or("the run's processes sent each other nothing")? + 1;
    Ok(TracedTraffic {
        ranks,
        duration: span / 1000,
        traffic: Arc::new(JobTraffic { flows }),
        run,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_analysis::{PairTraffic, TrafficBy};

    /// 1000 bytes in a microsecond are 8 Gb/s; in the run on a processor on which it lasts twice as long, 4 Gb/s.
    #[test]
    fn a_longer_run_sends_the_same_bytes_at_a_lower_rate() {
        let pair = PairTraffic {
            job: Some(0),
            from: 0,
            to_job: Some(0),
            to: Some(1),
            messages: 1,
            bytes: 1000,
            payload: None,
        };
        let matrix = Matrix {
            by: TrafficBy::Call,
            span_ps: 1_000_000,
            pairs: vec![pair],
            algorithms: Vec::new(),
            calls: Vec::new(),
            unknown: Vec::new(),
        };
        for (stretch, duration, rate) in [(1.0, 1000, 8_000_000_000), (2.0, 2000, 4_000_000_000)] {
            let found = of(&matrix, stretch, 0).unwrap();
            assert_eq!((found.duration, found.ranks), (duration, 2));
            assert_eq!(found.traffic.flows[0].rate, rate);
        }
    }

    #[test]
    fn warnings_of_runs_appear_once() {
        let runs = Runs {
            warnings: vec![vec!["a".into()], vec!["b".into()], vec!["a".into()]],
            ..Runs::on_processor(Some("zen5"))
        };
        assert_eq!(runs.warnings(vec![2, 0, 2]), ["a"]);
        assert_eq!(runs.warnings(vec![1, 0]), ["a", "b"]);
        assert!(Runs::default().warnings(vec![0]).is_empty());
    }
}
