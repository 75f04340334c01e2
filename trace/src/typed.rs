//! Contents of datatypes, and datatypes of collective operations.
//!
//! Only traces of [`TYPED_VERSION`](crate::TYPED_VERSION) have them, in the details of calls. A reader computes type
//! signatures and type maps from them. Created by tracers, used by checks.

use bincode::{Decode, Encode};
use serde::Serialize;

use crate::object::Datatype;

/// Most parts and most blocks of a datatype in a trace.
pub const MOST_CONTENTS: usize = 1 << 10;

/// Datatypes of a call besides those of its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct CallDatatypes {
    /// The contents of the datatype that it created.
    pub made: Option<DatatypeContents>,
    /// The datatypes in which its collective operation sends: one, or one for each of the pieces. A datatype is unknown
    /// where it is not significant.
    pub sent: Vec<Datatype>,
    /// The same for received data.
    pub received: Vec<Datatype>,
}

/// The elements and the memory of a datatype.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct DatatypeContents {
    /// The datatypes of which one element consists, each with its number of elements, in the order of the type map; `None`
    /// if they are unknown, or more than [`MOST_CONTENTS`].
    pub parts: Option<Vec<(Datatype, u64)>>,
    /// The blocks of data in one element, each with its offset and its length in bytes, in the order of the type map; adjacent
    /// ones are joined. `None` if they are unknown, or too many.
    pub blocks: Option<Vec<(i64, u64)>>,
}
