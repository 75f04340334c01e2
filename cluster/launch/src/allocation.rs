//! The Slurm job of this process: its hosts and its resources on them.
//!
//! Read from the environment and from `scontrol`. Contradictory values are an [`AllocationError`] that
//! names the variable. The list of a run's hosts is made from this.

use std::env;
use std::fmt;
use std::io;
use std::process::Command;

/// Slurm's lists of counts, such as `4(x2),2`: 4, 4 and 2.
mod counts;

pub use counts::CountsError;

/// Bytes in Slurm's unit of memory.
const MIB: u64 = 1 << 20;

/// The longest accepted list of hosts.
const MOST_HOSTS: usize = 1 << 16;

/// Errors in a job's description.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// A variable that every job has is absent.
    #[error("SLURM_JOB_ID is set, but {0} is not; start this inside of salloc or sbatch")]
    Absent(&'static str),
    /// A variable has an invalid value.
    #[error("{name}={value:?} is not a valid {wanted}")]
    Value {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// Valid values.
        wanted: &'static str,
    },
    /// The job's resources on its hosts cannot be read.
    #[error("SLURM_JOB_CPUS_PER_NODE: {0}")]
    Counts(#[from] CountsError),
    /// `scontrol` cannot expand the list of hosts.
    #[error("scontrol show hostnames {list}: {reason}")]
    Hostnames {
        /// The list.
        list: String,
        /// Its error message.
        reason: String,
    },
}

/// The number of a job, and its array if it belongs to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId {
    /// The job's own number, which all commands accept.
    pub id: u32,
    /// For a job of an array: the array's number, and the job's index in it.
    pub array: Option<(u32, u32)>,
}

impl fmt::Display for JobId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.array {
            Some((array, task)) => write!(to, "{array}_{task}"),
            None => write!(to, "{}", self.id),
        }
    }
}

/// The resources of a job on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedHost {
    /// The host's name.
    pub name: String,
    /// Processors.
    pub cpus: u32,
    /// Bytes of memory; `None` if the job has no limit, or all memory.
    pub memory: Option<u64>,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its number.
    pub job: JobId,
    /// Its hosts, in Slurm's order.
    pub hosts: Vec<AllocatedHost>,
}

impl Allocation {
    /// The job that this process is part of; `None` outside of any.
    ///
    /// # Errors
    /// If Slurm's variables contradict each other, or `scontrol` fails.
    pub fn from_environment() -> Option<Result<Self, AllocationError>> {
        Self::from_variables(|name| env::var(name).ok(), hostnames)
    }

    /// The job that variables describe; `expand` converts Slurm's short list into hosts.
    fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
        expand: impl FnOnce(&str) -> Result<Vec<String>, AllocationError>,
    ) -> Option<Result<Self, AllocationError>> {
        let id = variable("SLURM_JOB_ID")?;
        let variables = Variables(&variable);
        Some(variables.allocation(&id, expand))
    }
}

/// Slurm's variables.
struct Variables<'a, V>(&'a V);

impl<V: Fn(&str) -> Option<String>> Variables<'_, V> {
    fn allocation(
        &self,
        id: &str,
        expand: impl FnOnce(&str) -> Result<Vec<String>, AllocationError>,
    ) -> Result<Allocation, AllocationError> {
        let job = JobId {
            id: number("SLURM_JOB_ID", id)?,
            array: match (
                self.number("SLURM_ARRAY_JOB_ID")?,
                self.number("SLURM_ARRAY_TASK_ID")?,
            ) {
                (Some(array), Some(task)) => Some((array, task)),
                _ => None,
            },
        };
        let list = self.required("SLURM_JOB_NODELIST")?;
        let names = expand(&list)?;
        let cpus = counts::parse(&self.required("SLURM_JOB_CPUS_PER_NODE")?, names.len())?;
        let host = |(name, cpus)| {
            Ok(AllocatedHost {
                name,
                cpus,
                memory: self.memory(cpus)?,
            })
        };
        let hosts = names.into_iter().zip(cpus).map(host);
        Ok(Allocation {
            job,
            hosts: hosts.collect::<Result<_, AllocationError>>()?,
        })
    }

    /// Bytes on a host with this number of processors. Slurm's zero means all of the host's.
    fn memory(&self, cpus: u32) -> Result<Option<u64>, AllocationError> {
        let mib = match self.number("SLURM_MEM_PER_NODE")? {
            Some(mib) => Some(u64::from(mib)),
            None => self
                .number("SLURM_MEM_PER_CPU")?
                .map(|mib| u64::from(mib) * u64::from(cpus)),
        };
        Ok(mib
            .filter(|&mib| mib > 0)
            .map(|mib| mib.saturating_mul(MIB)))
    }

    fn required(&self, name: &'static str) -> Result<String, AllocationError> {
        (self.0)(name).ok_or(AllocationError::Absent(name))
    }

    fn number(&self, name: &'static str) -> Result<Option<u32>, AllocationError> {
        (self.0)(name).map(|value| number(name, &value)).transpose()
    }
}

fn number(name: &'static str, value: &str) -> Result<u32, AllocationError> {
    value.trim().parse().map_err(|_| AllocationError::Value {
        name,
        value: value.to_owned(),
        wanted: "number",
    })
}

/// Calls `scontrol` to expand a list such as `node[01-03,7],login`.
fn hostnames(list: &str) -> Result<Vec<String>, AllocationError> {
    let failed = |reason: String| AllocationError::Hostnames {
        list: list.to_owned(),
        reason,
    };
    let output = Command::new("scontrol")
        .args(["show", "hostnames", list])
        .output()
        .map_err(|error: io::Error| failed(format!("cannot start scontrol: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(said.trim().to_owned()));
    }
    named(&String::from_utf8_lossy(&output.stdout)).map_err(failed)
}

/// The names that `scontrol` printed, one on a line.
fn named(printed: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = printed.lines().map(|line| line.trim().to_owned()).collect();
    let strange = |name: &&String| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        name.is_empty() || name.starts_with('-') || !name.chars().all(plain)
    };
    if let Some(name) = names.iter().find(strange) {
        return Err(format!("{name:?} is not a host's name"));
    }
    match names.len() {
        0 => Err("there are no hosts".to_owned()),
        1..=MOST_HOSTS => Ok(names),
        more => Err(format!("{more} hosts are more than {MOST_HOSTS}")),
    }
}

#[cfg(test)]
mod tests;
