//! What MPI libraries make of collective operations: the messages of each rank, in order.
//!
//! A [`Call`] is what a rank passes to a collective operation. [`Tables`], read out of the library's own file, choose
//! the [`Algorithm`] that it takes for that; the algorithm gives the rank's [`Schedule`]: sends, receives and work of
//! its own, with what each of these waits for. Libraries are MPICH 4.0 and Open MPI 4.1. Nothing
//! here knows of guests, of traces or of time. Called by the analysis of traffic.
//!
//! From top to bottom: `algorithm` names what `algorithms` build; those know `call` and `schedule`; `tables` know `call`.
//!
//! ```
//! use belljar_collectives::{Algorithm, Call, Operation};
//!
//! let call = Call::new(Operation::Broadcast, 4, 0).elements(1000, 8);
//! let schedule = Algorithm::BroadcastBinomial.schedule(&call);
//! let sends: Vec<_> = schedule.sends().collect();
//! assert_eq!(sends, [(2, 8000), (1, 8000)]);
//! ```

/// Algorithms by their names, and their schedules.
mod algorithm;
/// How each algorithm goes, operation by operation.
mod algorithms;
/// What a rank passes to a collective operation.
mod call;
/// The tables in a library's file.
mod library;
/// Operations of communicators whose members share nodes.
mod nodes;
/// What Open MPI makes of collective operations.
mod open_mpi;
/// A rank's part in an operation, step by step.
mod schedule;
/// A whole communicator's schedules carried out, with what each message holds.
#[cfg(test)]
mod simulation;
/// Which algorithm an MPI library takes for which call.
mod tables;

pub use algorithm::Algorithm;
pub use belljar_mpi::Operation;
pub use call::Call;
pub use library::MAX_LIBRARY_BYTES;
pub use nodes::{NodeComposition, Nodes, Stage};
pub use open_mpi::OpenMpiAlgorithm;
pub use schedule::{Action, Schedule, Step};
pub use tables::{Choice, Library, TableError, Tables};
