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

mod agent;
pub mod allocation;
mod child;
mod deadline;
mod error;
pub mod job;
mod lines;
mod local;
mod quote;
mod signals;
mod srun;
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
pub trait Launch: Send + Sync {
    /// Starts `agent` on `host`.
    ///
    /// # Errors
    /// When the host cannot be reached or refuses. What was started by then ends by itself.
    fn start(&self, host: &str, agent: &AgentCommand) -> Result<Agent, LaunchError>;
}
