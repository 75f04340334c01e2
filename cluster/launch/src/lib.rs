//! Agents on physical hosts: started here, through Slurm, or through ssh, talked to by
//! lines, and gone when the run is over, however it ends.
//!
//! An **agent** is a process that a [`Launch`] starts on a host. To it,
//!
//! * standard input first brings what the caller [sends](Agent::send) (a secret, so it is
//!   on no command line and in no environment) and then stays open as long as the run
//!   lives. Its end means that whoever started the agent is gone: the agent must end by
//!   itself then. No process is left on any host because of this rule alone; all
//!   that is stronger ([`Agent::end`]) takes a caller that still lives.
//! * standard output carries lines to the caller ([`Agent::lines`]).
//! * standard error is for people: each line is passed on with the host's name before it.
//!
//! Besides that, [`job`] hands batch jobs in to Slurm.
//!
//! What the rule cannot cover is a host that vanishes without a word, so that the other
//! side's connection never ends: agents watch their peers for that.
//!
//! `local`, `srun` and `ssh` are the ways to start agents; each imports what it needs of `child` (an agent that is
//! a process of this host), `agent`, `lines` and `signals`, and none imports another. [`job`] stands by itself.

/// An agent that was started, to whoever started it.
mod agent;
/// The Slurm job that this process is part of: its hosts and what it has on them.
pub mod allocation;
/// Agents that a child of this process is, or stands for.
mod child;
/// Waiting on the host's clock.
mod deadline;
/// Why an agent was not started.
mod error;
/// Jobs of Slurm: batch scripts, handing them in, and what becomes of them.
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

/// What is to be started on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCommand {
    /// The program's file, on this host. [`Srun`] takes it to be at the same place on all
    /// hosts; [`Ssh`] copies it where it is absent.
    pub program: PathBuf,
    /// Its arguments. Every user of the hosts may read them.
    pub arguments: Vec<String>,
}

/// A way to start agents on hosts.
///
/// A call may take as long as the way's time limits allow; calls for different hosts may
/// be made from different threads at once.
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
    /// When the host cannot be reached or refuses. What was started by then ends by itself.
    fn start(&self, host: &str, agent: &AgentCommand) -> Result<Agent, LaunchError>;
}
