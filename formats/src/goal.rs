//! GOAL (Group Operation Assembly Language): schedules of LogGOPSim and ATLAHS, as text and in their binary form.

/// Reads it.
pub(crate) mod reader;
/// Writes it.
mod writer;

pub use writer::{write_goal, write_goal_binary};
