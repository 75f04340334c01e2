//! Datatypes within constructed ones, from which a reader computes type signatures.
//!
//! All constructors but those of structures repeat one old type. Used by `datatypes` when constructors return.

use belljar_trace::datatypes::PREDEFINED;
use belljar_trace::{Datatype, MOST_CONTENTS};

use super::sizes::lengths;
use super::{Constructor, Datatypes, constructor_of, elements};
use crate::decode::arguments::Arguments;

impl Datatypes {
    /// Returns the datatypes of which an element of the constructed datatype consists, each with its number of elements, in
    /// the order of the type map. `None` if one of them is unknown, or there are too many.
    pub(super) fn constructed_parts(
        &self,
        arguments: &mut Arguments<'_>,
    ) -> Option<Vec<(Datatype, u64)>> {
        let all = match constructor_of(arguments)? {
            Constructor::Struct => {
                let lengths = lengths(arguments)?;
                let types = arguments.handles("array_of_types", lengths.len() as u64)?;
                let types = types.into_iter().map(|handle| self.get(handle));
                types.zip(lengths).collect()
            }
            constructor @ (Constructor::Numeric(_) | Constructor::Range) => {
                let size = self.constructed_size(arguments)?;
                vec![(fortran_type(constructor, size)?, 1)]
            }
            _ => {
                let old = self.get(arguments.word("oldtype")?);
                vec![(old, elements(arguments)?)]
            }
        };
        let mut parts: Vec<(Datatype, u64)> = Vec::new();
        for (datatype, count) in all {
            if count == 0 || datatype.size() == Some(0) {
                continue;
            }
            if datatype == Datatype::Unknown {
                return None;
            }
            match parts.last_mut() {
                Some((last, number)) if *last == datatype => *number = number.checked_add(count)?,
                _ => parts.push((datatype, count)),
            }
        }
        (parts.len() <= MOST_CONTENTS).then_some(parts)
    }
}

/// Returns the predefined datatype of Fortran whose elements have this size, and the kind of a constructor by precision and range.
fn fortran_type(constructor: Constructor, size: u64) -> Option<Datatype> {
    let kind = match constructor {
        Constructor::Numeric(1) => "MPI_REAL",
        Constructor::Numeric(_) => "MPI_COMPLEX",
        _ => "MPI_INTEGER",
    };
    let name = format!("{kind}{size}");
    let index = PREDEFINED.iter().position(|row| row.name == name)?;
    u16::try_from(index).ok().map(Datatype::Predefined)
}
