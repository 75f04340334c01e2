//! The base of all simulation: virtual time, the total order of events, and the only random generator.
//!
//! Independent of guests, networks and hosts, and of the host's clock and threads. All other simulating crates build on it.
//!
//! `queue` uses `calendar`, which uses the times of `time`, which prints with `figures`; `random`, `codec`, `pending` and `figures` import nothing here;
//! `distribution` uses `random` and the units of `time`.

/// A queue of keys ordered by time.
mod calendar;
/// The binary form of saved state.
mod codec;
/// Random lengths of time with a given mean.
mod distribution;
/// Figures in text, by one rule of rounding.
pub mod figures;
/// Values that take effect at later times.
mod pending;
/// The event queue and its total order.
mod queue;
/// The only random generator.
mod random;
/// Virtual time in whole picoseconds, and its relation to processor cycles.
mod time;

pub use calendar::{Calendar, Timed};
pub use codec::{CodecError, check, decode, encode};
pub use distribution::Distribution;
pub use pending::Pending;
pub use queue::{EventKey, EventQueue};
pub use random::{Random, Seed};
pub use time::{Frequency, Span, Time, greatest_common_divisor};
