//! Replay of traced MPI jobs on other networks, without guests.
//!
//! A [`Program`](belljar_program::Program) contains the processes' work. The [`Engine`](engine::Engine) plays it: threads compute as long as in the trace, call MPI, and
//! wait according to a network model. It is played twice. *Calibration* follows the trace, on the traced network: each call is entered at its traced time. The part of
//! its duration that hosts' costs and the network do not explain is its *residual*. *Replay* then plays it on the network in question, with the residuals added. A
//! replay on the traced network therefore equals the trace, except for overestimated times, and differences on another network are caused by the network. Used by
//! `belljar replay`.
//!
//! From top to bottom: `contention` plays many programs at once, `placement` and `dependence` play one in several settings. `replay` plays a program twice by `engine`,
//! and returns an `outcome`; both use `costs`.

/// A job that is played over a network that others use as well.
mod background;
/// Residuals of calls.
mod calibration;
/// Many programs on one network.
mod contention;
/// Processors' work for messages.
mod costs;
/// Sensitivities of a replay.
mod dependence;
/// Plays a program on a network.
mod engine;
/// Fitting of costs to traced calls.
mod fitting;
/// A replay on an ideal network.
mod ideal;
/// The result of a replay.
mod outcome;
/// Search for placements of ranks.
mod placement;
/// Prepared jobs.
mod prepared;
/// Calibration and replay of a program.
mod replay;
/// A replay as a trace.
mod rewrite;
/// Tolerance to latency and bandwidth.
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
pub use replay::parallel::{map as map_in_parallel, processors};
pub use replay::{NetworkModel, ReplayError, Setting, calibrate, replay};
pub use rewrite::write_trace;
pub use tolerance::{LevelTolerance, SLOWDOWNS, Tolerance, tolerance};
