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

use crate::command::results::trace::collected::refuse;
use crate::command::results::trace::tables::tables_of_run;
use crate::command::results::trace::trace_file;

/// Traced runs that were read.
#[derive(Default)]
pub(super) struct Runs {
    known: BTreeMap<PathBuf, TracedTraffic>,
    /// Runs by number.
    directories: Vec<PathBuf>,
}

impl Runs {
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
        let of = of(&matrix, self.directories.len())?;
        self.directories.push(directory.to_owned());
        self.known.insert(directory.to_owned(), of.clone());
        Ok(of)
    }
}

/// A traced run's traffic as flows.
fn of(matrix: &Matrix, run: usize) -> Result<TracedTraffic, String> {
    let jobs = matrix.pairs.iter().flat_map(|pair| [pair.job, pair.to_job]);
    if jobs.flatten().any(|job| job > 0) {
        return Err("the run has several MPI programs; a job of a mix is one".to_owned());
    }
    let span = matrix.span_ps;
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
