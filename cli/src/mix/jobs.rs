//! Jobs of a mix: groups by distribution, and logs of workloads.
//!
//! Called by `Mix`. The files are untrusted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_sim::figures::counted_as;
use belljar_sim::{Random, Seed};
use belljar_simulate::{Distribution, Job, JobTraffic, Log, Nanos};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{MixFileError, value};
use belljar_cluster::scenario::quantity::{Bandwidth, Duration};
use traffic::{known, pattern};

/// Traffic of jobs: of traced runs, patterns and matrices.
mod traffic;

/// Maximum number of jobs of a mix.
const MOST_JOBS: usize = 10_000_000;
/// Maximum number of ranks of a job with a pattern: each has a list of flows.
const MOST_RANKS: u32 = 1 << 20;
/// Maximum number of flows in a file of traffic.
const MOST_FLOWS: usize = 1 << 26;
/// Largest file of traffic, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// Traffic of a traced run.
#[derive(Clone, Debug)]
pub struct TracedTraffic {
    /// Number of its ranks.
    pub ranks: u32,
    /// Run time of its program.
    pub duration: Nanos,
    /// Its messages, over that time.
    pub traffic: Arc<JobTraffic>,
    /// Its number, assigned by the implementation of [`TrafficProvider`].
    pub run: usize,
}

/// Provides the traffic of traced runs.
pub trait TrafficProvider {
    /// The traffic of the run in this directory.
    ///
    /// # Errors
    /// The reason why the traffic is unknown, as text.
    fn traffic(&mut self, directory: &Path) -> Result<TracedTraffic, String>;
}

/// A group of similar jobs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct JobGroup {
    name: String,
    #[serde(default = "one")]
    count: u32,
    /// Arrival times of the jobs.
    #[serde(default)]
    arrival: JobArrival,
    /// Processes of each; by default those of the trace.
    ranks: Option<u32>,
    /// Run time of each; by default the time of the trace.
    duration: Option<Span>,
    /// Users' estimate of the run time, as a factor of it.
    #[serde(default = "factor")]
    estimate: f64,
    #[serde(default)]
    priority: i64,
    #[serde(default)]
    traffic: TrafficSource,
}

fn one() -> u32 {
    1
}

fn factor() -> f64 {
    1.0
}

/// Arrival times of jobs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "Arrival")]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct JobArrival {
    /// Time of the first arrival.
    #[serde(default)]
    from: Option<Duration>,
    /// Time between arrivals.
    between: Option<Span>,
    /// Or a list of arrival times.
    times: Option<Vec<Duration>>,
}

/// A span of time, or a distribution of spans.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Span {
    Always(Duration),
    Drawn(Drawn),
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "distribution", deny_unknown_fields, rename_all = "kebab-case")]
enum Drawn {
    Uniform { least: Duration, most: Duration },
    Exponential { mean: Duration },
    Weibull { scale: Duration, shape: f64 },
}

impl Span {
    fn distribution(&self) -> Distribution {
        let nanos = |span: &Duration| span.0.as_ps() as f64 / 1e3;
        match self {
            Self::Always(span) => Distribution::Constant(nanos(span)),
            Self::Drawn(Drawn::Uniform { least, most }) => Distribution::Uniform {
                least: nanos(least),
                most: nanos(most),
            },
            Self::Drawn(Drawn::Exponential { mean }) => {
                Distribution::Exponential { mean: nanos(mean) }
            }
            Self::Drawn(Drawn::Weibull { scale, shape }) => Distribution::Weibull {
                scale: nanos(scale),
                shape: *shape,
            },
        }
    }
}

/// Traffic of processes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "Traffic")]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TrafficSource {
    /// Name of a pattern.
    pattern: Option<String>,
    /// Rate of each rank, with a pattern.
    rate: Option<Bandwidth>,
    /// Run directory of a traced run.
    trace: Option<PathBuf>,
    /// File with lines `from,to,bits per second`.
    matrix: Option<PathBuf>,
}

/// Log of a workload; its jobs have a process for each processor.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LogSource {
    /// File in the Standard Workload Format.
    file: PathBuf,
    /// Number of jobs from the beginning; all by default.
    count: Option<u32>,
    #[serde(default)]
    traffic: TrafficSource,
}

/// All jobs of a mix, and warnings about them.
pub(super) fn all(
    groups: &[JobGroup],
    log: Option<&LogSource>,
    seed: u64,
    folder: &Path,
    traced: &mut dyn TrafficProvider,
) -> Result<(Vec<Job>, Vec<String>), MixFileError> {
    let (mut jobs, mut said) = (Vec::new(), Vec::new());
    for (number, group) in (0..).zip(groups) {
        let random = Random::new(Seed(seed), "jobs", number);
        of_group(group, random, folder, traced, &mut jobs)?;
    }
    if let Some(log) = log {
        said.extend(of_log(log, folder, traced, &mut jobs)?);
    }
    if jobs.is_empty() {
        return Err(value(
            "jobs",
            "empty",
            "at least one group, or a log that has jobs",
        ));
    }
    Ok((jobs, said))
}

fn of_group(
    group: &JobGroup,
    mut random: Random,
    folder: &Path,
    traced: &mut dyn TrafficProvider,
    jobs: &mut Vec<Job>,
) -> Result<(), MixFileError> {
    let key = |name: &str| format!("jobs {}: {name}", group.name);
    let known = known(&group.traffic, folder, traced)?;
    let ranks = group.ranks.or(known.as_ref().and_then(|of| of.ranks));
    let ranks = ranks.ok_or_else(|| value(&key("ranks"), "absent", "given, or a trace's"))?;
    let lasted = known.as_ref().and_then(|of| of.duration);
    let duration = match (&group.duration, lasted) {
        (Some(span), _) => span.distribution(),
        (None, Some(lasted)) => Distribution::Constant(lasted as f64),
        (None, None) => return Err(value(&key("duration"), "absent", "given, or a trace's")),
    };
    let between = group.arrival.between.as_ref();
    let between = between.map_or(Distribution::Constant(0.0), Span::distribution);
    if !duration.is_one() || !between.is_one() {
        return Err(value(
            &key("distribution"),
            "none",
            "of spans from 0 on, with a shape above 0",
        ));
    }
    if !(group.estimate.is_finite() && group.estimate >= 1.0) {
        return Err(value(
            &key("estimate"),
            group.estimate,
            "a number of 1 or more",
        ));
    }
    let times = group.arrival.times.as_ref();
    let count = times.map_or(group.count as usize, Vec::len);
    if jobs.len() + count > MOST_JOBS {
        return Err(value("jobs", jobs.len() + count, "at most 10000000"));
    }
    let run = known.as_ref().and_then(|of| of.run);
    let traffic = match known {
        Some(of) => of.traffic,
        None => Arc::new(pattern(&group.traffic, ranks)?),
    };
    let name: Arc<str> = Arc::from(group.name.as_str());
    let mut now = group.arrival.from.map_or(0, |from| from.0.as_ps() / 1000);
    for at in 0..count {
        now = match times {
            Some(times) => times[at].0.as_ps() / 1000,
            None => now.saturating_add(between.draw(&mut random)),
        };
        let runs = duration.draw(&mut random).max(1);
        jobs.push(Job {
            name: Arc::clone(&name),
            arrival: now,
            ranks,
            duration: runs,
            estimate: (runs as f64 * group.estimate) as Nanos,
            priority: group.priority,
            traffic: Arc::clone(&traffic),
            run,
        });
    }
    Ok(())
}

fn of_log(
    source: &LogSource,
    folder: &Path,
    traced: &mut dyn TrafficProvider,
    jobs: &mut Vec<Job>,
) -> Result<Vec<String>, MixFileError> {
    let path = folder.join(&source.file);
    let failed = |error: std::io::Error| MixFileError::File {
        path: path.clone(),
        reason: format!("cannot be read: {error}"),
    };
    let log = Log::open(&path).map_err(failed)?;
    let mut said = Vec::new();
    let shown = path.display();
    if let Some((line, count)) = log.broken {
        said.push(format!(
            "{shown}: {} of the Standard Workload Format, the first is line {line}; left out",
            counted_as(count, "line is not a job", "lines are not jobs")
        ));
    }
    if log.incomplete > 0 {
        said.push(format!(
            "{shown}: {} length or processors; left out",
            counted_as(
                log.incomplete,
                "job did not run, or lacks its",
                "jobs did not run, or lack their"
            )
        ));
    }
    let own = known(&source.traffic, folder, traced)?;
    let count = source.count.map_or(usize::MAX, |count| count as usize);
    let name: Arc<str> = Arc::from("log");
    let mut patterns = std::collections::BTreeMap::new();
    let wanted = jobs.len() + log.jobs.len().min(count);
    if wanted > MOST_JOBS {
        return Err(value("jobs", wanted, "at most 10000000; set log.count"));
    }
    for job in log.jobs.into_iter().take(count) {
        let traffic = match &own {
            Some(own) => Arc::clone(&own.traffic),
            None => match patterns.get(&job.processors) {
                Some(known) => Arc::clone(known),
                None => {
                    let made = Arc::new(pattern(&source.traffic, job.processors)?);
                    patterns.insert(job.processors, Arc::clone(&made));
                    made
                }
            },
        };
        jobs.push(Job {
            name: Arc::clone(&name),
            arrival: job.arrival,
            ranks: job.processors,
            duration: job.duration.max(1),
            estimate: job.estimate.max(1),
            priority: 0,
            traffic,
            run: None,
        });
    }
    Ok(said)
}
