//! Later events of the card, in order of time.
//!
//! Events of one time keep the order in which they were added. The node runs exactly to the first one.

use belljar_sim::{Pending, Time};
use serde::{Deserialize, Serialize};

use crate::completions::Completion;

/// A later event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Due {
    /// Work is complete, in this queue.
    Complete(u32, Completion),
    /// A packet for this card itself arrives.
    Arrive(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A pair's peer may be silent for too long.
    Timeout(u32),
    /// A pair may try again whose peer had no receive.
    Ready(u32),
    /// A pair goes on with a long answer.
    Answer(u32),
    /// The delay of a pair's packets by congestion control is nearly over.
    Pace(u32),
}

/// Later events.
pub(crate) type DueEvents = Pending<Time, Due>;
