//! Agents on physical hosts, started locally, through Slurm or through ssh, and controlled by lines. No agent
//! outlives its run.
//!
//! An **agent** is a process that a [`Launch`] starts on a host. Its streams are:
//!
//! * Standard input first carries the bytes that the caller [sends](Agent::send), such as a secret, which thus
//!   appears on no command line and in no environment. It then stays open during the run. Its end means that the
//!   owner of the agent has ended: the agent must then end itself. This rule alone leaves no process on any host;
//!   every stronger means ([`Agent::end`]) needs a living caller.
//! * Standard output carries lines to the caller ([`Agent::lines`]).
//! * Standard error is for users: each line is forwarded with the host's name before it.
//!
//! In addition, [`job`] submits batch jobs to Slurm.
//!
//! The rule does not cover a host that vanishes without closing its connection: agents watch their peers for this
//! case.
//!
//! `local`, `srun` and `ssh` start agents. They share `child` (an agent as a process of this host), `agent`,
//! `lines` and `signals`, and are independent of each other. [`job`] is independent of them.

/// A started agent, from its owner's side.
mod agent;
/// The Slurm job of this process: its hosts and its resources on them.
pub mod allocation;
/// Agents that run as, or through, a child of this process.
mod child;
/// Waiting by the host's clock.
mod deadline;
/// Errors of starting an agent.
mod error;
/// Slurm jobs: batch scripts, their submission, and their state.
pub mod job;
/// Lines of an agent's output.
mod lines;
/// Agents on this host, as children of this process.
mod local;
/// Words for shells.
mod quote;
/// Names of signals.
mod signals;
/// Agents on the hosts of a Slurm job.
mod srun;
/// Agents on hosts that ssh reaches.
pub mod ssh;

use std::path::PathBuf;

pub use agent::{Agent, AgentExit, Gone, end_all};
pub use allocation::{AllocatedHost, Allocation, AllocationError, JobId};
pub use error::LaunchError;
pub use lines::{Tell, to_standard_error};
pub use local::Local;
pub use srun::Srun;
pub use ssh::Ssh;

/// The command of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCommand {
    /// The program's file, on this host. [`Srun`] expects it at the same path on all hosts; [`Ssh`] copies it to
    /// hosts without it.
    pub program: PathBuf,
    /// Its arguments. Every user of the hosts may read them.
    pub arguments: Vec<String>,
}

/// A way to start agents on hosts.
///
/// A call may take as long as the time limits of the implementation; calls for different hosts may run on
/// different threads at once.
///
/// ```
/// use belljar_launch::{AgentCommand, Launch, Local};
///
/// let command = AgentCommand {
///     program: "/bin/sh".into(),
///     arguments: vec!["-c".into(), "echo ready".into()],
/// };
/// let way: Box<dyn Launch> = Box::new(Local::default());
/// let agent = way.start("here", &command)?;
/// assert_eq!(agent.lines().recv()?, "ready");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Launch: Send + Sync {
    /// Starts `agent` on `host`.
    ///
    /// # Errors
    /// If the host cannot be reached or refuses. Any process started before the error ends itself.
    fn start(&self, host: &str, agent: &AgentCommand) -> Result<Agent, LaunchError>;
}
