//! GOAL (Group Operation Assembly Language): schedules of LogGOPSim and ATLAHS, as text and in their binary form.
//!
//! A schedule has no communicators, so that messages are between ranks of the whole job. Used by `import` and by `belljar trace export`.

/// Reading of schedules.
pub(crate) mod reader;
/// Writing of schedules.
mod writer;

pub use writer::{write_goal, write_goal_binary};
