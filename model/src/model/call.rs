//! What differs between instances of a call.
//!
//! Made by `learn`, read by `generate`.

use serde::{Deserialize, Serialize};

use crate::relation::Relation;
use crate::structure::Turns;
use crate::values::{Spread, Values};

/// A call of a class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallModel {
    /// Which of the model's templates it is made of.
    pub template: u32,
    /// Its times, by the call before it, the most frequent first: from one call to another the program does something else.
    pub times: Vec<Times>,
    /// Its messages.
    pub transfers: Vec<TransferModel>,
    /// Its collective operations.
    pub collectives: Vec<CollectiveModel>,
    /// The requests that it completes.
    pub completes: Completes,
    /// The shape of the communicator that it makes.
    pub shape: Shape,
}

/// Times of a call after another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Times {
    /// The number of the call before, if there is one.
    pub after: Option<u32>,
    /// Picoseconds of the thread's own time before it.
    pub before: Values,
    /// How these lie around that.
    pub before_spread: Spread,
    /// Picoseconds of its own work inside.
    pub own: Values,
    /// How these lie around that.
    pub own_spread: Spread,
}

/// A message, or an access to a window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransferModel {
    /// The peer, or of a receive with a wildcard whom it gets its message from: one relation for all instances, or one for each phase; none for a wildcard to which messages came in no known order.
    pub peer: Vec<Relation>,
    /// The turn of these relations.
    pub by: Counter,
    /// Counters of the phase, each with its period; the last counts fastest. Without any, phases are turns, and the last one stays.
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
    /// The turn of a loop around that one: the next one is 0.
    Outer(u8),
    /// One in the last turn of the innermost loop, else zero.
    Last,
    /// The instance's number.
    Instance,
}

/// The phase of an instance for these counters.
pub(crate) fn phase(phases: &[(Counter, u32)], turns: Turns, instance: u32) -> u32 {
    phases.iter().fold(0, |sum: u32, (by, period)| {
        let own = by.of(turns, instance).checked_rem(*period).unwrap_or(0);
        sum.saturating_mul(*period).saturating_add(own)
    })
}

impl Counter {
    /// All, the innermost first.
    pub(crate) const ALL: [Self; 5] = [
        Self::Turn,
        Self::Instance,
        Self::Outer(0),
        Self::Outer(1),
        Self::Outer(2),
    ];

    /// Its value for an instance of this number.
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
    /// Bytes that go out, of each of its share or in all pieces together.
    pub sent: Values,
    /// Bytes that come in, likewise.
    pub received: Values,
}

/// Tags of instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tags {
    /// None, or any.
    None,
    /// Always the same.
    Same(i32),
    /// The turn, and so many more.
    Turn(i32),
    /// The instance's number, and so many more.
    Instance(i32),
    /// One after the other, and again from the first.
    List(Vec<i32>),
}

/// Which of the open requests a call completes, in the order in which they were begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completes {
    /// All of them.
    All,
    /// These.
    These(Vec<u32>),
    /// These, one instance after the other, and again from the first.
    InTurn(Vec<Vec<u32>>),
}

/// What decides who is in a communicator that a call makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// What the template says.
    AsTraced,
    /// Colour and key of a split.
    Split {
        /// The colour.
        color: Relation,
        /// The key.
        key: Relation,
    },
    /// Who is in a communicator of a group, where the caller is.
    Members {
        /// The lowest of them, by its rank in the communicator that it is made from.
        first: Relation,
        /// What orders them; those for which it is the same by their ranks there.
        key: Relation,
    },
    /// How many neighbours a graph has at the caller.
    Degrees {
        /// From whom it receives.
        sources: Relation,
        /// To whom it sends.
        destinations: Relation,
    },
    /// A grid of as many dimensions as the template has.
    Grid {
        /// Whether later dimensions are the longer ones.
        ascending: bool,
    },
}
