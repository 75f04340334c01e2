//! What the processes of an MPI job do, in the formats of other simulators.
//!
//! A [`Program`](belljar_program::Program) says who sends what to whom with collective operations, communicators and threads; most other
//! simulators know one communicator, one thread a rank, and fewer operations. `messages` puts a program in their terms, each rank's
//! steps in order, and counts what has no place there; `ti` writes these steps as a time-independent trace of SimGrid, with the
//! network that it is to be played on, `goal` as a schedule of LogGOPSim. Steps are made rank by rank, so no more is held than the program and a few numbers for each of its messages.
//! Called by `belljar trace export`.

/// GOAL schedules of LogGOPSim and ATLAHS.
mod goal;
/// A program as sends, receives and waits of each rank.
mod messages;
/// Time-independent traces of SimGrid.
mod ti;

pub use goal::{write_goal, write_goal_binary};
pub use messages::{LeftOut, Message, Messages, Step, Together};
pub use ti::{Amounts, Layout, write_hosts, write_platform, write_rank};
