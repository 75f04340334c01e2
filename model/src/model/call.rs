//! Differences between the instances of a call.
//!
//! Created by `learn`, read by `generate`.

use serde::{Deserialize, Serialize};

use crate::relation::Relation;
use crate::structure::Turns;
use crate::values::{Spread, Values};

/// A call of a class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallModel {
    /// The index of its template in the model.
    pub template: u32,
    /// Its times, by the previous call, the most frequent first: the program does different work between different calls.
    pub times: Vec<CallTimeModel>,
    /// Its messages.
    pub transfers: Vec<TransferModel>,
    /// Its collective operations.
    pub collectives: Vec<CollectiveModel>,
    /// The requests that it completes.
    pub completes: Completes,
    /// The shape of the communicator that it creates.
    pub shape: Shape,
}

/// Times of a call after a particular call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallTimeModel {
    /// The number of the previous call, if there is one.
    pub after: Option<u32>,
    /// Picoseconds of the thread's own time before it.
    pub before: Values,
    /// Their distribution.
    pub before_spread: Spread,
    /// Picoseconds of its own work inside.
    pub own: Values,
    /// Their distribution.
    pub own_spread: Spread,
}

/// A message, or an access to a window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransferModel {
    /// The peer, or for a wildcard receive the source of its message. There is one relation for all instances, or one for each phase; none for a wildcard whose messages
    /// arrived in no known order.
    pub peer: Vec<Relation>,
    /// The turn of these relations.
    pub by: Counter,
    /// Counters of the phase, each with its period; the last counts fastest. Without counters, phases are turns, and the last one repeats.
    pub phases: Vec<(Counter, u32)>,
    /// Its tag.
    pub tag: Tags,
    /// Its bytes.
    pub bytes: Values,
}

/// A number that counts instances of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counter {
    /// The turn of the innermost loop around it.
    #[default]
    Turn,
    /// The turn of a loop around that one: `Outer(0)` is the next one.
    Outer(u8),
    /// One in the last turn of the innermost loop, otherwise zero.
    Last,
    /// The instance's number.
    Instance,
}

/// Returns the phase of an instance for these counters.
pub(crate) fn phase(phases: &[(Counter, u32)], turns: Turns, instance: u32) -> u32 {
    phases.iter().fold(0, |sum: u32, (by, period)| {
        let own = by.of(turns, instance).checked_rem(*period).unwrap_or(0);
        sum.saturating_mul(*period).saturating_add(own)
    })
}

impl Counter {
    /// All counters, the innermost first.
    pub(crate) const ALL: [Self; 5] = [
        Self::Turn,
        Self::Instance,
        Self::Outer(0),
        Self::Outer(1),
        Self::Outer(2),
    ];

    /// Returns its value for an instance of this number.
    pub(crate) fn of(self, turns: Turns, instance: u32) -> u32 {
        match self {
            Self::Turn => turns.turn,
            Self::Outer(of) => turns.outer.get(usize::from(of)).copied().unwrap_or(0),
            Self::Last => u32::from(turns.last),
            Self::Instance => instance,
        }
    }
}

/// A collective operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CollectiveModel {
    /// The root, if it has one.
    pub root: Option<Relation>,
    /// The turn of that relation.
    pub by: Counter,
    /// Bytes sent, with each of its share or in all pieces together.
    pub sent: Values,
    /// Bytes received, likewise.
    pub received: Values,
}

/// Tags of instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tags {
    /// No tag, or any.
    None,
    /// Always the same tag.
    Same(i32),
    /// The turn, plus this number.
    Turn(i32),
    /// The instance's number, plus this number.
    Instance(i32),
    /// These tags in a cycle.
    List(Vec<i32>),
}

/// The open requests that a call completes, by their position in the order in which they were begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completes {
    /// All of them.
    All,
    /// These.
    These(Vec<u32>),
    /// These in a cycle, one for each instance.
    InTurn(Vec<Vec<u32>>),
}

/// The values that determine the members of a communicator that a call creates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// As in the template.
    AsTraced,
    /// Colour and key of a split.
    Split {
        /// The colour.
        color: Relation,
        /// The key.
        key: Relation,
    },
    /// The members of a group's communicator that contains the caller.
    Members {
        /// The lowest member, by its rank in the parent communicator.
        first: Relation,
        /// The sort key of the members; ties are in the order of their ranks there.
        key: Relation,
    },
    /// The number of neighbours of a graph at the caller.
    Degrees {
        /// The number that it receives from.
        sources: Relation,
        /// The number that it sends to.
        destinations: Relation,
    },
    /// A grid of as many dimensions as the template has.
    Grid {
        /// True if later dimensions are longer.
        ascending: bool,
    },
}
