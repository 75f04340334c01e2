//! Collective operations as the messages of MPI libraries: those of each rank, in order.
//!
//! A [`Call`] has a rank's arguments of a collective operation. [`Tables`], read from the library's own file, choose its
//! [`Algorithm`]; the algorithm yields the rank's [`Schedule`]: sends, receives and local work, with the prerequisites of
//! each. The supported libraries are MPICH 4.0 and Open MPI 4.1. This crate does not depend on guests, traces or times.
//! Used by the analysis of traffic.
//!
//! From top to bottom: `build` makes the schedule of an `algorithm` with the implementations in `algorithms`, which use
//! `call` and `schedule`; `tables` choose an `algorithm` for a `call`.
//!
//! ```
//! use belljar_collectives::{Algorithm, Call, Operation};
//!
//! let call = Call::new(Operation::Broadcast, 4, 0).elements(1000, 8);
//! let schedule = Algorithm::BroadcastBinomial.schedule(&call);
//! let sends: Vec<_> = schedule.sends().collect();
//! assert_eq!(sends, [(2, 8000), (1, 8000)]);
//! ```

/// Algorithms by their names.
mod algorithm;
/// Implementation of each algorithm, by operation.
mod algorithms;
/// Schedules of algorithms.
mod build;
/// A rank's arguments of a collective operation.
mod call;
/// The tables in a library's file.
mod library;
/// Operations of communicators whose members share nodes.
mod nodes;
/// Collective operations of Open MPI.
mod open_mpi;
/// A rank's part in an operation, step by step.
mod schedule;
/// Execution of a whole communicator's schedules, with the contents of messages.
#[cfg(test)]
mod simulation;
/// An MPI library's choice of algorithms.
mod tables;

pub use algorithm::Algorithm;
pub use belljar_mpi::Operation;
pub use call::Call;
pub use library::MAX_LIBRARY_BYTES;
pub use nodes::{NodeComposition, Nodes, Stage};
pub use open_mpi::OpenMpiAlgorithm;
pub use schedule::{Action, Schedule, Step};
pub use tables::{Choice, Library, TableError, Tables};
