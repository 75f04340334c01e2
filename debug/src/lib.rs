//! A run under a debugger: its ranks are processes of one target, and its time has two directions.
//!
//! A session repeats a run by its plan. It changes nothing in the guests, so it shows the states of the original
//! run. Processes come from the guests' kernels ([`belljar_linux`]), positions from the cluster's
//! timeline, and the protocol from [`belljar_gdb`]. Called by `belljar debug`.

/// The nodes' kernels as processes.
mod kernels;
/// Shared libraries of processes.
mod libraries;
/// The other side of a message.
mod partner;
/// Positions by words: times, calls, the ends of a run.
mod place;
/// Processes and threads of all nodes.
mod processes;
/// Registers of threads.
mod registers;
/// A connection with a debugger.
mod serve;
/// A run and its present position.
mod session;
/// Movements along the time.
mod steps;
/// The session as a debugger's target.
mod target;
/// Watched memory of processes.
mod watchpoints;

pub use partner::MessageSide;
pub use place::{Place, PlaceError};
pub use serve::{Debugger, Listener, serve};
pub use session::{Session, SessionError};
