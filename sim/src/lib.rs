//! The ground floor: virtual time, the total order of events, and the only random generator.
//!
//! Nothing here knows of guests, networks or hosts, and nothing depends on the host's clock or threads. All
//! other crates that simulate build on it.

mod codec;
mod queue;
mod random;
mod time;

pub use codec::{CodecError, check, decode, encode};
pub use queue::{EventKey, EventQueue};
pub use random::{Random, Seed};
pub use time::{Frequency, Span, Time, greatest_common_divisor};
