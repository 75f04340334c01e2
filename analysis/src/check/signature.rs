//! Data that calls describe: bytes, and the class of their basic datatype.
//!
//! Classes distinguish integers, floating-point numbers and others by size, so equivalent datatypes of C and Fortran agree.
//! `MPI_BYTE` and `MPI_PACKED` agree with all. Derived datatypes have a size and no class. Used by checks of messages and of
//! collective operations.

use belljar_trace::datatypes::{PREDEFINED, by_handle};
use belljar_trace::{Datatype, Event};

/// The class of a basic datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataClass {
    Integer,
    Floating,
    Complex,
    Logical,
    Character,
    Pair,
}

/// Returns the class and the size of a predefined datatype; `None` if it agrees with all others.
fn class_of(index: u16) -> Option<(DataClass, u32)> {
    let row = PREDEFINED.get(usize::from(index))?;
    let name = row.name;
    let class = match name {
        "MPI_BYTE" | "MPI_PACKED" | "MPI_LB" | "MPI_UB" => return None,
        _ if name.ends_with("_INT") && name != "MPI_INT" => DataClass::Pair,
        _ if name.starts_with("MPI_2") => DataClass::Pair,
        _ if name.contains("COMPLEX") => DataClass::Complex,
        _ if name.contains("BOOL") || name.contains("LOGICAL") => DataClass::Logical,
        "MPI_CHAR" | "MPI_SIGNED_CHAR" | "MPI_UNSIGNED_CHAR" | "MPI_CHARACTER" | "MPI_INT8_T"
        | "MPI_UINT8_T" | "MPI_INTEGER1" => DataClass::Character,
        _ if ["FLOAT", "DOUBLE", "REAL"]
            .iter()
            .any(|part| name.contains(part)) =>
        {
            DataClass::Floating
        }
        _ => DataClass::Integer,
    };
    Some((class, row.size))
}

/// True if data of one datatype may be received as the other.
pub(super) fn agree(sent: Datatype, received: Datatype) -> bool {
    let (Datatype::Predefined(sent), Datatype::Predefined(received)) = (sent, received) else {
        return true;
    };
    match (class_of(sent), class_of(received)) {
        (Some(sent), Some(received)) => sent == received,
        _ => true,
    }
}

/// Returns the word of an argument by the parameter's name.
pub(super) fn word(event: &Event, name: &str) -> Option<u64> {
    let mut parameters = event.description().parameters.iter();
    let at = parameters.position(|parameter| parameter.name == name)?;
    event.arguments.get(at).copied()
}

/// Returns an integer argument by the parameter's name.
pub(super) fn integer(event: &Event, name: &str) -> Option<i64> {
    word(event, name).map(u64::cast_signed)
}

/// Returns the datatype that an argument names, if its handle is a constant.
pub(super) fn constant_datatype(event: &Event, name: &str) -> Option<Datatype> {
    let handle = word(event, name)?;
    by_handle(event.implementation, handle).map(Datatype::Predefined)
}

/// The bytes and the datatype of one side of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    /// Bytes, if the datatype's size is known.
    pub(super) bytes: Option<u64>,
    /// The datatype; unknown unless its handle is a constant.
    pub(super) datatype: Datatype,
}

impl Signature {
    /// Returns the data that the arguments `count` and `datatype` describe.
    pub(super) fn of(event: &Event, count: &str, datatype: &str) -> Option<Self> {
        let count = u64::try_from(integer(event, count)?).ok()?;
        let datatype = constant_datatype(event, datatype).unwrap_or(Datatype::Unknown);
        let bytes = datatype.size().and_then(|size| size.checked_mul(count));
        let bytes = if count == 0 { Some(0) } else { bytes };
        Some(Self { bytes, datatype })
    }

    /// True if both may describe the same data.
    pub(super) fn has_bytes_of(self, other: Self) -> bool {
        let both = self.bytes.zip(other.bytes);
        both.is_none_or(|(own, other)| own == other)
    }

    /// True if the datatypes may be the same; data of no bytes have none.
    pub(super) fn agrees(self, other: Self) -> bool {
        let is_empty = self.bytes == Some(0) || other.bytes == Some(0);
        is_empty || agree(self.datatype, other.datatype)
    }
}
