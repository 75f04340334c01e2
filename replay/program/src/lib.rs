//! What the processes of a traced MPI job do, as replay needs it: their own work, and what they ask of MPI.
//!
//! A [`Program`] is made of a trace by [`extract()`]. It says which message each receive gets, who takes part in which collective
//! operation and how, and how long each thread works between its calls and stays in them; it says nothing of how long anything takes on
//! a network. Nothing here knows of networks or of guests. Called by replay.
//!
//! From top to bottom: `extract` sees events in order and has `thread`s note them; `builder` makes a program without a trace; all know `program`.

/// A program made without a trace.
mod builder;
/// From a trace to a program.
mod extract;
/// What threads of an MPI job do, call by call.
mod program;
/// A program as plain values.
mod state;
/// A thread's program in the making.
mod thread;

pub use builder::Builder;
pub use extract::{Algorithms, asks_time, extract, found_nothing};
pub use program::{
    AccessCompletion, Call, Channel, ChannelId, Collective, Conditions, Locking, Operation, Part,
    Process, ProcessId, Program, Slot, Thread, Unfinished, Unknown,
};
pub use state::{ProgramError, ProgramState};
