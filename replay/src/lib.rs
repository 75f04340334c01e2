//! Traced MPI jobs played again on other networks, without guests.
//!
//! A [`Program`](belljar_program::Program) is what the processes did. The [`Engine`](engine::Engine) plays it: threads compute as long as they did, call MPI, and wait for
//! what a network says. It is played twice. *Calibration* keeps to the trace, on the network on which it was traced: each call is entered when it was, and
//! what it took beyond what hosts' costs and the network explain is its *residual*. *Replay* then plays it on the network in question, with the residuals added.
//! So a replay on the traced network is the trace, but for what the model explains too long, and what differs on another comes from the network. Called by `belljar
//! replay`.
//!
//! From top to bottom: `contention` plays many programs at once, `placement` and `dependence` play it in several settings; `replay` plays a program twice by `engine`, and gives an `outcome`; both know `costs`.

/// A job that is played over a network while others use it.
mod background;
/// Residuals of calls.
mod calibration;
/// Many programs on one network.
mod contention;
/// What hosts' processors do for messages.
mod costs;
/// What a replay depends on.
mod dependence;
/// Plays a program on a network.
mod engine;
/// Costs that explain traced calls best.
mod fitting;
/// A replay on a network that costs nothing.
mod ideal;
/// What a replay says.
mod outcome;
/// Where ranks are best placed.
mod placement;
/// A traced job made ready to be played.
mod prepared;
/// A program played twice.
mod replay;
/// A replay as a trace.
mod rewrite;
/// Tolerance of latency and bandwidth.
mod tolerance;

pub use background::{
    Background, BackgroundFigures, BackgroundSetting, BackgroundState, BackgroundStateError,
};
pub use calibration::{Calibration, Fit};
pub use contention::{Contention, ContentionState, ContentionStateError, Joined, NextEnd};
pub use costs::{Costs, CostsError, Protocol, SharedMemory, Work};
pub use dependence::{Cost, Without, without};
pub use fitting::{Fitted, FittedCost, Traced, fit_costs};
pub use ideal::ideal;
pub use outcome::{FunctionOutcome, Outcome, RankOutcome, Stuck};
pub use placement::{Effort, Method, Placement, search};
pub use prepared::{MOST_FILE_BYTES, PreparedError, PreparedJob};
pub use replay::{NetworkModel, ReplayError, Setting, calibrate, replay};
pub use rewrite::write_trace;
pub use tolerance::{LevelTolerance, SLOWDOWNS, Tolerance, tolerance};
