//! Data that calls describe: bytes, and the class of their basic datatype.
//!
//! Classes distinguish integers, floating-point numbers and others by size, so equivalent datatypes of C and Fortran agree.
//! `MPI_BYTE` and `MPI_PACKED` agree with all. Used by checks of messages and of collective operations.

/// Type signatures and layouts of datatypes.
pub(super) mod types;

use belljar_trace::datatypes::{PREDEFINED, by_handle};
use belljar_trace::{Datatype, Event};

use crate::dump::words::collective_datatype;
use types::{Comparison, TypeTable, TypedData, difference};

/// The class of a basic datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataClass {
    Integer,
    Floating,
    Complex,
    Logical,
    Character,
}

/// A basic datatype as type signatures distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BasicType {
    pub(super) class: DataClass,
    pub(super) bytes: u32,
}

impl BasicType {
    /// Returns a number of its own, which is not 0.
    pub(super) fn code(self) -> u64 {
        let class = match self.class {
            DataClass::Integer => 1,
            DataClass::Floating => 2,
            DataClass::Complex => 3,
            DataClass::Logical => 4,
            DataClass::Character => 5,
        };
        class << 32 | u64::from(self.bytes)
    }

    /// Returns it in words.
    pub(super) fn words(self) -> String {
        let class = match self.class {
            DataClass::Integer => "an integer",
            DataClass::Floating => "a floating-point number",
            DataClass::Complex => "a complex number",
            DataClass::Logical => "a logical value",
            DataClass::Character => "a character",
        };
        format!("{class} of {} B", self.bytes)
    }
}

/// The basic datatypes in an element of a predefined datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    One(BasicType),
    /// A pair of a value and an index, or of two equal values.
    Two(BasicType, BasicType),
    /// Bytes that agree with all datatypes.
    Bytes(u32),
}

/// Returns the basic datatypes in an element of a predefined datatype; `None` if there is no such datatype.
pub(super) fn elements_of(index: u16) -> Option<Element> {
    let row = PREDEFINED.get(usize::from(index))?;
    let name = row.name;
    let basic = |class, bytes| BasicType { class, bytes };
    let number = |name: &str| match () {
        () if name.contains("COMPLEX") => DataClass::Complex,
        () if ["FLOAT", "DOUBLE", "REAL"]
            .iter()
            .any(|part| name.contains(part)) =>
        {
            DataClass::Floating
        }
        () => DataClass::Integer,
    };
    let index = basic(DataClass::Integer, 4);
    Some(match name {
        "MPI_BYTE" | "MPI_PACKED" | "MPI_LB" | "MPI_UB" => Element::Bytes(row.size),
        _ if name.starts_with("MPI_2") => {
            let half = basic(number(name), row.size / 2);
            Element::Two(half, half)
        }
        _ if name.ends_with("_INT") && name != "MPI_INT" => {
            // The value, and an `int`.
            Element::Two(basic(number(name), row.size.saturating_sub(4)), index)
        }
        _ if name.contains("COMPLEX") => Element::One(basic(DataClass::Complex, row.size)),
        _ if name.contains("BOOL") || name.contains("LOGICAL") => {
            Element::One(basic(DataClass::Logical, row.size))
        }
        "MPI_CHAR" | "MPI_SIGNED_CHAR" | "MPI_UNSIGNED_CHAR" | "MPI_CHARACTER" | "MPI_INT8_T"
        | "MPI_UINT8_T" | "MPI_INTEGER1" => Element::One(basic(DataClass::Character, row.size)),
        _ => Element::One(basic(number(name), row.size)),
    })
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
    /// The elements; their datatype is unknown if the trace does not describe it.
    pub(super) data: TypedData,
}

impl Signature {
    /// Returns the data that the arguments `count` and `datatype` describe.
    pub(super) fn of(event: &Event, count: &str, datatype: &str) -> Option<Self> {
        let count = u64::try_from(integer(event, count)?).ok()?;
        let constant = constant_datatype(event, datatype);
        let datatype = constant
            .or_else(|| collective_datatype(event, datatype))
            .unwrap_or(Datatype::Unknown);
        let bytes = datatype.size().and_then(|size| size.checked_mul(count));
        let bytes = if count == 0 { Some(0) } else { bytes };
        let data = TypedData {
            process: (event.node, event.process),
            datatype,
            count,
        };
        Some(Self { bytes, data })
    }

    /// True if both may describe the same data.
    pub(super) fn has_bytes_of(self, other: Self) -> bool {
        let both = self.bytes.zip(other.bytes);
        both.is_none_or(|(own, other)| own == other)
    }

    /// Describes the first difference of the type signatures, which is empty if it is unknown; `None` if they may be the same.
    /// Data of no bytes have none.
    pub(super) fn difference(self, other: Self, types: &TypeTable) -> Option<String> {
        if self.bytes == Some(0) || other.bytes == Some(0) {
            return None;
        }
        let Comparison::Differ(at) = types.compare(self.data, other.data) else {
            return None;
        };
        let datatypes = [self, other].map(|side| side.data.datatype);
        // Names of predefined datatypes say it.
        let is_named = datatypes
            .iter()
            .all(|datatype| matches!(datatype, Datatype::Predefined(_)));
        Some(difference(at.filter(|_| !is_named)))
    }
}
