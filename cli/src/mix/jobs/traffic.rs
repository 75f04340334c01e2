//! Traffic of jobs: of traced runs, patterns and matrices.
//!
//! Traffic of one source is read once and shared by jobs. Called by `jobs`.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use belljar_files::open_input;
use belljar_simulate::{JobTraffic, Nanos, Pattern, RankFlow};

use super::super::{MixFileError, value};
use super::{MOST_BYTES, MOST_FLOWS, MOST_RANKS, TrafficProvider, TrafficSource};

/// Traffic for any number of ranks.
pub(super) struct KnownTraffic {
    pub(super) ranks: Option<u32>,
    pub(super) duration: Option<Nanos>,
    pub(super) traffic: Arc<JobTraffic>,
    pub(super) run: Option<usize>,
}

pub(super) fn known(
    source: &TrafficSource,
    folder: &Path,
    traced: &mut dyn TrafficProvider,
) -> Result<Option<KnownTraffic>, MixFileError> {
    let given = [
        source.pattern.is_some(),
        source.trace.is_some(),
        source.matrix.is_some(),
    ];
    if given.into_iter().filter(|given| *given).count() > 1 {
        return Err(value(
            "traffic",
            "several",
            "one of pattern, trace and matrix",
        ));
    }
    if let Some(directory) = &source.trace {
        let path = folder.join(directory);
        let of = traced.traffic(&path);
        let of = of.map_err(|reason| MixFileError::File { path, reason })?;
        return Ok(Some(KnownTraffic {
            ranks: Some(of.ranks),
            duration: Some(of.duration),
            traffic: of.traffic,
            run: Some(of.run),
        }));
    }
    let Some(file) = &source.matrix else {
        return Ok(None);
    };
    let path = folder.join(file);
    let (ranks, traffic) = matrix(&path)?;
    Ok(Some(KnownTraffic {
        ranks: Some(ranks),
        duration: None,
        traffic: Arc::new(traffic),
        run: None,
    }))
}

/// The traffic of a pattern among this number of ranks; empty without a pattern.
pub(super) fn pattern(source: &TrafficSource, ranks: u32) -> Result<JobTraffic, MixFileError> {
    /// Maximum number of pairs of ranks of one job.
    const MOST: u64 = 1 << 26;
    let Some(name) = &source.pattern else {
        return Ok(JobTraffic::default());
    };
    let pattern = match name.as_str() {
        "silent" => Pattern::Silent,
        "ring" => Pattern::Ring,
        "stencil" => Pattern::Stencil,
        "all-to-all" => Pattern::AllToAll,
        "hypercube" => Pattern::Hypercube,
        "transpose" => Pattern::Transpose,
        other => {
            let allowed = "silent, ring, stencil, all-to-all, hypercube or transpose";
            return Err(value("traffic.pattern", other, allowed));
        }
    };
    if pattern == Pattern::AllToAll && u64::from(ranks).pow(2) > MOST {
        return Err(value("ranks", ranks, "at most 8192 with all-to-all"));
    }
    if pattern != Pattern::Silent && ranks > MOST_RANKS {
        return Err(value("ranks", ranks, "at most 1048576 with a pattern"));
    }
    let rate = source.rate.map_or(0, |rate| rate.0);
    if pattern != Pattern::Silent && rate == 0 {
        return Err(value(
            "traffic.rate",
            "absent",
            "given with a pattern, such as 1 Gb/s",
        ));
    }
    Ok(JobTraffic::of(pattern, ranks, rate))
}

/// Ranks and traffic of a file with lines `from,to,bits per second`.
pub(super) fn matrix(path: &Path) -> Result<(u32, JobTraffic), MixFileError> {
    let failed = |reason: String| MixFileError::File {
        path: path.to_owned(),
        reason,
    };
    let mut text = String::new();
    open_input(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| failed(format!("cannot be read: {error}")))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(failed(format!("it has more than {MOST_BYTES} bytes")));
    }
    let (mut flows, mut ranks) = (Vec::new(), 0);
    for (number, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let flow = match fields[..] {
            [from, to, rate] => from
                .parse()
                .ok()
                .zip(to.parse().ok())
                .zip(rate.parse::<f64>().ok()),
            _ => None,
        };
        match flow.filter(|(_, rate)| rate.is_finite() && *rate >= 0.0) {
            Some(((from, to), rate)) if from < u32::MAX && to < u32::MAX => {
                if flows.len() >= MOST_FLOWS {
                    return Err(failed(format!("it has more than {MOST_FLOWS} flows")));
                }
                ranks = ranks.max(from + 1).max(to + 1);
                let rate = rate as u64;
                flows.push(RankFlow { from, to, rate });
            }
            // A line of names may come first.
            None if number == 0 => {}
            _ => {
                return Err(failed(format!(
                    "line {} is not `from,to,bits per second`",
                    number + 1
                )));
            }
        }
    }
    Ok((ranks, JobTraffic { flows }))
}
