//! Orders of an MPI job's messages.
//!
//! A [`Choice`] is a call that could have got one of several messages, such as a receive from any source. An order gives the
//! message of each choice. [`Search`] finds the orders that were not observed yet, and [`plan`] the delays that force one. The
//! crate does not depend on guests, traces or runs: a caller observes runs and carries out targets. Used by `analysis`, which
//! extracts choices from a trace, and by `belljar explore`.

/// Choices of a run, and their messages.
mod choice;
/// Random detours of processors.
mod detours;
/// Delays that force an order.
mod force;
/// The fewest delays with which a run fails.
mod minimise;
/// Random priorities of senders.
mod priority;
/// The search for all orders.
mod search;

pub use choice::{Choice, ChoiceId, ChoiceKind, MessageId, ObservedRun, RankId, SentMessage};
pub use detours::{DetourRange, RankPart};
pub use force::{DelayPlace, ForceError, ForcedDelay, merge, plan};
pub use minimise::{Minimiser, Trial};
pub use priority::PrioritySchedule;
pub use search::{Order, Search, Target};
