//! Slurm jobs: batch scripts, their submission, and their state.
//!
//! Uses only `sbatch` and `scontrol`. A value that cannot be written on one line of a script is refused.
//! Called by `belljar submit` and `belljar sweep`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Slurm's record of a job.
mod record;
/// Batch scripts.
mod script;

pub use record::{JobRecord, JobState};

/// An error of a job's script, submission or query.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A value that does not fit on a line of a batch script.
    #[error("{0:?} has characters that a batch script cannot contain")]
    Unprintable(String),
    /// One of Slurm's commands does not start.
    #[error("cannot start {command}: {source}; it comes with Slurm's client commands")]
    Start {
        /// The command.
        command: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// One of Slurm's commands fails.
    #[error("{command}: {said}")]
    Failed {
        /// The command.
        command: &'static str,
        /// Its error message.
        said: String,
    },
}

/// A batch job, or an array of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchJob {
    /// Its displayed name; other characters than plain letters become `-`.
    pub name: String,
    /// Its working folder. Each job of an array works in a subfolder named by its index, from 0.
    pub folder: PathBuf,
    /// The program and its arguments. It replaces the script's process, so that it receives the job's
    /// signals.
    pub command: Vec<String>,
    /// Its requested resources.
    pub wishes: Wishes,
    /// For an array: the number of jobs, and the maximum that run at a time.
    pub array: Option<(u32, Option<u32>)>,
}

/// Requested resources of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Hosts; one by default.
    pub hosts: Option<u32>,
    /// Processors on each host; all of them, exclusively, by default.
    pub cpus_per_host: Option<u32>,
    /// MiB of memory on each host. The default is the cluster's, or all memory if all processors are
    /// requested.
    pub memory_mib: Option<u64>,
    /// Time limit in Slurm's form, such as `30` (minutes) or `1-12:00:00`.
    pub time: Option<String>,
    /// The partition; the cluster's default when absent.
    pub partition: Option<String>,
    /// The account to charge; the user's default when absent.
    pub account: Option<String>,
}

impl BatchJob {
    /// The batch script.
    ///
    /// # Errors
    /// [`JobError::Unprintable`] if a value contains a line end or similar characters.
    pub fn script(&self) -> Result<String, JobError> {
        script::write(self)
    }

    /// The file for the job's standard output and error; for an array, in the folder of each job.
    pub const LOG: &str = "job.log";
}

/// Submits a script and returns the job's number.
///
/// # Errors
/// If `sbatch` does not start or refuses the script.
pub fn submit(script: &str) -> Result<u32, JobError> {
    const SBATCH: &str = "sbatch";
    let start = |source| JobError::Start {
        command: SBATCH,
        source,
    };
    let mut child = Command::new(SBATCH)
        .arg("--parsable")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that ends early reports the reason itself.
        let _ = stdin.write_all(script.as_bytes());
    }
    let printed = finished(SBATCH, child.wait_with_output().map_err(start)?)?;
    // NUMBER, or NUMBER;CLUSTER.
    let number = printed.split(';').next().unwrap_or_default().trim();
    number.parse().map_err(|_| JobError::Failed {
        command: SBATCH,
        said: format!("it printed {printed:?} instead of a job's number"),
    })
}

/// Slurm's records of a job, or of all jobs of an array. Empty for a forgotten job: Slurm forgets jobs
/// minutes after their end (`MinJobAge`).
///
/// # Errors
/// If `scontrol` does not start or the controller does not answer.
pub fn records(job: u32) -> Result<Vec<JobRecord>, JobError> {
    const SCONTROL: &str = "scontrol";
    let output = Command::new(SCONTROL)
        .args(["--oneliner", "show", "job", &job.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| JobError::Start {
            command: SCONTROL,
            source,
        })?;
    match finished(SCONTROL, output) {
        Ok(printed) => Ok(printed.lines().filter_map(JobRecord::parse).collect()),
        Err(JobError::Failed { said, .. }) if said.contains("Invalid job id") => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The output of a command that succeeded.
fn finished(command: &'static str, output: std::process::Output) -> Result<String, JobError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(JobError::Failed {
        command,
        said: in_one_line(command, &said),
    })
}

/// A command's error message in one line: its lines each begin with the command's name.
fn in_one_line(command: &str, said: &str) -> String {
    let begin = format!("{command}: ");
    let words = said.lines().map(|line| {
        let line = line.strip_prefix(&begin).unwrap_or(line);
        line.strip_prefix("error: ").unwrap_or(line).trim()
    });
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_say_is_made_one_line() {
        let said = "sbatch: error: one\nsbatch: two\nthree\n";
        assert_eq!(in_one_line("sbatch", said), "one; two; three");
    }
}
