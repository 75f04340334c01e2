//! Jobs of Slurm: batch scripts, handing them in, and what becomes of them.
//!
//! Speaks to Slurm by `sbatch` and `scontrol` alone. A value that would not stay on its line of a script is
//! refused. Called by `belljar submit` and `belljar sweep`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What Slurm tells of a job.
mod record;
/// Batch scripts.
mod script;

pub use record::{JobRecord, JobState};

/// Why a job cannot be made, handed in or asked about.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A value that does not fit on a line of a batch script.
    #[error("{0:?} has letters that a batch script cannot hold")]
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
        /// What it said.
        said: String,
    },
}

/// A batch job, or an array of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchJob {
    /// Its name for people; letters other than plain ones become `-`.
    pub name: String,
    /// The folder that it works in. Each job of an array works in the folder in it that is
    /// named by its place, from 0 on.
    pub folder: PathBuf,
    /// The program and its arguments. It is the script's own process in the end, so that
    /// it gets the job's signals.
    pub command: Vec<String>,
    /// What it asks for.
    pub wishes: Wishes,
    /// For an array: how many jobs, and how many of them at a time, if not all.
    pub array: Option<(u32, Option<u32>)>,
}

/// What a job asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Hosts; one when absent.
    pub hosts: Option<u32>,
    /// Processors on each; all of them, shared with nobody, when absent.
    pub cpus_per_host: Option<u32>,
    /// MiB of memory on each; when absent what the cluster gives, or all of it where all
    /// processors are asked for.
    pub memory_mib: Option<u64>,
    /// The longest time, as Slurm writes it, such as `30` (minutes) or `1-12:00:00`.
    pub time: Option<String>,
    /// The partition; the cluster's own choice when absent.
    pub partition: Option<String>,
    /// The account that pays; the user's own when absent.
    pub account: Option<String>,
}

impl BatchJob {
    /// The batch script.
    ///
    /// # Errors
    /// [`JobError::Unprintable`] when a value has a line's end or the like in it.
    pub fn script(&self) -> Result<String, JobError> {
        script::write(self)
    }

    /// The file that the standard output and error of the job go to; of an array's,
    /// in the folder of the job.
    pub const LOG: &str = "job.log";
}

/// Hands a script in; the job's number.
///
/// # Errors
/// When `sbatch` does not start or refuses it.
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
        // One that ends early says why.
        let _ = stdin.write_all(script.as_bytes());
    }
    let printed = finished(SBATCH, child.wait_with_output().map_err(start)?)?;
    // NUMBER, or NUMBER;CLUSTER.
    let number = printed.split(';').next().unwrap_or_default().trim();
    number.parse().map_err(|_| JobError::Failed {
        command: SBATCH,
        said: format!("it printed {printed:?}, and no job's number"),
    })
}

/// What Slurm knows of a job, or of all jobs of an array. Empty for one that it has
/// forgotten; it does so minutes after the end (`MinJobAge`).
///
/// # Errors
/// When `scontrol` does not start or the controller does not answer.
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

/// What a command printed, if all went well.
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

/// What a command said over several lines that each begin with its name.
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
