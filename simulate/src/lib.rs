//! Many jobs on one interconnect: when they come, which starts on which hosts, and what links carry then.
//!
//! [`Simulation`] plays jobs under [`Policies`]: a scheduler, a selection of hosts, a mapping of processes, a router; each is a trait that others may implement. Knows no trace and no guest.
//! Called by `belljar simulate`.
//!
//! From top to bottom: `simulation` knows all; `scheduler`, `selection`, `mapping` and `routing` are policies and do not know each other; `job` and `load` know nothing of them.

/// When jobs come, by chance.
mod arrival;
/// Jobs and what they send.
mod job;
/// What links carry.
mod load;
/// Logs of workloads.
mod log;
/// Which process is on which host.
mod mapping;
/// What a simulation says of a machine.
mod measures;
/// What policies remember.
mod memory;
/// Over which links flows go.
mod routing;
/// Which jobs start.
mod scheduler;
/// Which hosts a job gets.
mod selection;
/// A topology for tests.
#[cfg(test)]
mod shapes;
/// Jobs, from arrival to end.
mod simulation;

pub use arrival::Distribution;
pub use job::{Flow, Job, Nanos, Pattern, Traffic};
pub use load::{LinkUse, Load, Loads};
pub use log::{Log, LoggedJob};
pub use mapping::{Block, Cyclic, Greedy as GreedyMapping, Mapping, Placing};
pub use measures::{JobMeasures, Measures};
pub use memory::Memory;
pub use routing::{Fabric, Greedy as GreedyRouter, Placed, Router, Way};
pub use scheduler::{Conservative, Easy, Fcfs, Queue, Running, Scheduler, Waiting};
pub use selection::{Anywhere, Contiguous, Hosts, Linear, Selection, TopologyAware};
pub use simulation::{
    AsLong, JobOutcome, Machine, MixError, MixState, MixStateError, Next, Policies, Progress,
    Simulated, Simulation, Step, simulate,
};
