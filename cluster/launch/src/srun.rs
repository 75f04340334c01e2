//! Agents on the hosts of a Slurm job.
//!
//! Each agent has one `srun`, a child of this process, whose status and output give the agent's end.
//! Chosen inside of an allocation; see `cluster/src/hosts/list.rs`.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use crate::child::{self, ChildKind};
use crate::lines::{Tell, to_standard_error};
use crate::{Agent, AgentCommand, AgentExit, JobId, Launch, LaunchError, signals};

/// Variables that describe the job's own request. They would change the request of `srun`, so they are
/// removed.
const CONTRARY: &[&str] = &[
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPU_BIND",
    "SLURM_DISTRIBUTION",
    "SLURM_EXACT",
    "SLURM_HINT",
    "SLURM_HOSTFILE",
    "SLURM_MEM_BIND",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_NTASKS_PER_SOCKET",
    "SLURM_OVERCOMMIT",
    "SLURM_STDERRMODE",
    "SLURM_STDINMODE",
    "SLURM_STDOUTMODE",
    "SLURM_THREADS_PER_CORE",
    "SRUN_CPUS_PER_TASK",
];

/// The message of `srun`, even with `--quiet`, on clusters without CPU binding.
const NO_BINDING: &str = "srun: cluster configuration lacks support for cpu binding";

/// Starts agents as steps of a Slurm job, one on each host, each by its own `srun`.
///
/// A step has all processors and memory of the job on its host, shared with other steps, and is not
/// bound to processors. `srun` reports signals as shells do, so an agent must not use statuses over 128
/// otherwise.
#[derive(Clone)]
pub struct Srun {
    job: u32,
    tell: Tell,
}

impl Srun {
    /// For the hosts of `job`; passes lines of agents' standard error to `tell`.
    pub fn new(job: JobId, tell: Tell) -> Self {
        let tell: Tell = Arc::new(move |host, line| {
            if line != NO_BINDING {
                tell(host, line);
            }
        });
        Self { job: job.id, tell }
    }

    /// As [`new`](Self::new), with agents' standard error on this process's.
    pub fn of(job: JobId) -> Self {
        Self::new(job, to_standard_error())
    }

    fn command(&self, host: &str, agent: &AgentCommand) -> Command {
        let mut command = Command::new("srun");
        for name in CONTRARY {
            command.env_remove(name);
        }
        command
            .args(["--job-name=belljar-agent", "--nodes=1", "--ntasks=1"])
            .arg(format!("--jobid={}", self.job))
            .arg(format!("--nodelist={host}"))
            // Shared with other steps, and without --exact: all resources of the job on the host.
            .args(["--overlap", "--mem=0", "--cpu-bind=none"])
            // Agents use their own connections, so no MPI is set up.
            .args(["--mpi=none", "--input=0", "--kill-on-bad-exit=1", "--quiet"])
            // Not --unbuffered, which splits lines.
            .arg("--")
            .arg(&agent.program)
            .args(&agent.arguments);
        command
    }
}

impl Launch for Srun {
    fn start(&self, host: &str, agent: &AgentCommand) -> Result<Agent, LaunchError> {
        let kind = ChildKind {
            keep: is_of_srun,
            verdict,
        };
        let command = self.command(host, agent);
        child::start(host, command, &self.tell, kind).map_err(|source| LaunchError::Start {
            host: host.to_owned(),
            program: "srun".into(),
            source,
            hint: "; it comes with Slurm's client commands",
        })
    }
}

/// True if `srun` itself wrote the line, not the agent.
fn is_of_srun(line: &str) -> bool {
    line.starts_with("srun: ")
}

fn verdict(status: ExitStatus, said: &[String]) -> AgentExit {
    const SIGNALS: i32 = 128;
    let about_host = ["Node failure", "NODE FAILURE", "Node fail"];
    let host_failed = |line: &&String| about_host.iter().any(|words| line.contains(words));
    if let Some(line) = said.iter().find(host_failed) {
        return AgentExit::Lost(line.trim_start_matches("srun: ").to_owned());
    }
    match (status.code(), status.signal()) {
        (Some(code), _) if code > SIGNALS => AgentExit::Signal(signals::name(code - SIGNALS)),
        (Some(code), _) => AgentExit::Status(code),
        (None, Some(number)) => {
            AgentExit::Lost(format!("srun was ended by {}", signals::name(number)))
        }
        (None, None) => AgentExit::Lost(status.to_string()),
    }
}
