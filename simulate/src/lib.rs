//! Many jobs on one interconnect: their arrivals, their start and hosts, and the load of links.
//!
//! [`Simulation`] plays jobs under [`Policies`]: a scheduler, a selection of hosts, a mapping of processes, a router; each is a trait that users may implement. This
//! crate uses neither traces nor guests. Used by `belljar simulate`.
//!
//! From top to bottom: `simulation` uses all; `scheduler`, `selection`, `mapping` and `routing` are policies, independent of each other; `job` and `load` do not use
//! them.

/// Random arrivals of jobs.
mod arrival;
/// Jobs and their traffic.
mod job;
/// The load of links.
mod load;
/// Logs of workloads.
mod log;
/// Mapping of processes to hosts.
mod mapping;
/// Measures of a simulation.
mod measures;
/// The state of policies.
mod memory;
/// Routing of flows over links.
mod routing;
/// Scheduling of jobs.
mod scheduler;
/// Selection of hosts for jobs.
mod selection;
/// A topology for tests.
#[cfg(test)]
mod shapes;
/// Jobs, from arrival to end.
mod simulation;

pub use arrival::Distribution;
pub use job::{Job, JobTraffic, Nanos, Pattern, RankFlow};
pub use load::{LinkUse, Load, Loads};
pub use log::{Log, LoggedJob};
pub use mapping::{Block, Cyclic, Greedy as GreedyMapping, MappingPolicy, Placing};
pub use measures::{JobMeasures, Measures};
pub use memory::Memory;
pub use routing::{Fabric, Greedy as GreedyRouter, Placed, Router, Ways};
pub use scheduler::{Conservative, Easy, Fcfs, Queue, Running, Scheduler, WaitingJob};
pub use selection::{Anywhere, Contiguous, Hosts, Linear, Selection, TopologyAware};
pub use simulation::{
    AsLong, JobOutcome, JobProgress, Machine, MixError, MixState, MixStateError, Next, Policies,
    Simulated, Simulation, SimulationStep, simulate,
};
