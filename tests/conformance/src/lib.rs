//! Random MPI jobs with known matching, compared with every reader of traces.
//!
//! `generate` makes a job from a seed, `simulate` executes it by MPI's rules and so knows the matching, `record` has the real tracer decode its calls.
//! `readers` compare each reader of the resulting trace with that matching: an equal match passes, an unknown one passes where MPI leaves it open, a
//! wrong one fails. Used by the test `random_jobs`.

/// Jobs from seeds.
mod generate;
/// Jobs as data.
mod job;
/// Switches for kinds of calls.
mod kinds;
/// Readers compared with the truth.
mod readers;
/// Events of a simulated job, by the tracer's own decoding.
mod record;
/// Jobs as short text.
mod show;
/// Execution of a job by MPI's rules.
mod simulate;
/// The matching of a simulated job.
mod truth;

use std::path::Path;

use belljar_archive::TraceWriter;
use belljar_trace::{TraceError, TraceSummary};

pub use job::Job;
pub use kinds::Kinds;
pub use readers::Difference;

/// The result of one seed.
#[derive(Debug)]
pub struct Outcome {
    /// The job as short text.
    pub job: String,
    /// Claims of readers that contradict the job's matching.
    pub differences: Vec<Difference>,
}

/// Generates the job of `seed`, writes its trace into `folder`, and compares all readers with it.
///
/// # Errors
/// [`TraceError`] when the trace cannot be written or read.
pub fn check(seed: u64, kinds: &Kinds, folder: &Path) -> Result<Outcome, TraceError> {
    let job = generate::job(seed, kinds);
    let execution = simulate::execute(&job, seed);
    let recorded = record::record(&job, &execution);
    let path = folder.join(format!("{seed}.bjt"));
    let mut writer = TraceWriter::create(&path, &recorded.header, false)?;
    for event in &recorded.events {
        writer.push(event.clone())?;
    }
    writer.finish(&TraceSummary::default())?;
    let truth = truth::Truth::of(&job, &execution, kinds);
    let differences = readers::differences(&truth, kinds, &path)?;
    Ok(Outcome {
        job: show::text(&job, &execution),
        differences,
    })
}
