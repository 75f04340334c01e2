//! The work of a traced MPI job's processes, for replay: their own computing, and their operations of MPI.
//!
//! A [`Program`] is created from a trace by [`extract()`]. It contains the message of each receive, the members of each collective operation and
//! their parts, and each thread's work between its calls and within them. It has no times on a network. This crate depends neither on networks
//! nor on guests. Used by replay.
//!
//! From top to bottom: `extract` handles events in order and adds them to `thread`s; `builder` creates a program without a trace; all use
//! `program`.

/// Programs built without a trace.
mod builder;
/// Extraction of a program from a trace.
mod extract;
/// The operations of an MPI job's threads, call by call.
mod program;
/// A program as plain values.
mod state;
/// A thread's program under construction.
mod thread;

pub use builder::Builder;
pub use extract::{Algorithms, asks_time, extract, found_nothing};
pub use program::{
    AccessCompletion, Call, Channel, ChannelId, Collective, Conditions, Locking, Operation,
    Participation, Process, ProcessId, Program, Slot, Thread, Unfinished, Unknown,
};
pub use state::{ProgramError, ProgramState};
