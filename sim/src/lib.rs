//! The ground floor: virtual time, the total order of events, and the only random generator.
//!
//! Nothing here knows of guests, networks or hosts, and nothing depends on the host's clock or threads. All
//! other crates that simulate build on it.
//!
//! `queue` knows `calendar`, and that the times of `time`, which prints by `figures`; `random`, `codec` and `figures` import nothing here; `distribution`
//! draws by `random` what is in the units of `time`.

/// A queue of keys in the order of time.
mod calendar;
/// The binary form of saved state.
mod codec;
/// Random lengths of time with a given mean.
mod distribution;
/// Figures in text, by one rule of rounding.
pub mod figures;
/// The event queue and its total order.
mod queue;
/// The only random generator.
mod random;
/// Virtual time in whole picoseconds, and its relation to processor cycles.
mod time;

pub use calendar::{Calendar, Timed};
pub use codec::{CodecError, check, decode, encode};
pub use distribution::Distribution;
pub use queue::{EventKey, EventQueue};
pub use random::{Random, Seed};
pub use time::{Frequency, Span, Time, greatest_common_divisor};
