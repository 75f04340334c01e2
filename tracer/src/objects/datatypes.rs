//! The datatypes of a process.
//!
//! Of a datatype its size is known: from a constructor's arguments, or from what the program asked. Where
//! it cannot be known it is `None`, and bytes of messages with it count as 0. Called at entry for sizes, at
//! return for new ones.

use belljar_trace::datatypes::{by_mpich_handle, size_in_mpich_handle};
use belljar_trace::{Datatype, Implementation};
use bincode::{Decode, Encode};

use crate::decode::arguments::Arguments;
use crate::objects::registry::Registry;

/// Datatypes by handle.
#[derive(Debug, Encode, Decode)]
pub(crate) struct Datatypes {
    implementation: Implementation,
    known: Registry<Datatype>,
    next: u32,
}

/// How a constructor's result follows from its arguments: blocks of the old type.
#[derive(Clone, Copy, Debug)]
enum Constructor {
    /// As large as the old one.
    Same,
    /// `count` old ones.
    Contiguous,
    /// `count` blocks of `blocklength`.
    Vector,
    /// Blocks as long as an array says.
    Indexed,
    /// The same, of different types.
    Struct,
    /// A box in a grid.
    Subarray,
    /// This process's share of a distributed grid.
    Darray,
    /// A type of a size that the arguments tell.
    MatchSize,
    /// A Fortran type of a precision and a range, as so many parts.
    Numeric(u64),
    /// A Fortran integer of a range.
    Range,
}

fn constructor(name: &str) -> Option<Constructor> {
    Some(match name {
        "Type_dup" | "Type_create_resized" => Constructor::Same,
        "Type_contiguous" => Constructor::Contiguous,
        "Type_vector"
        | "Type_hvector"
        | "Type_create_hvector"
        | "Type_create_indexed_block"
        | "Type_create_hindexed_block" => Constructor::Vector,
        "Type_indexed" | "Type_hindexed" | "Type_create_hindexed" => Constructor::Indexed,
        "Type_struct" | "Type_create_struct" => Constructor::Struct,
        "Type_create_subarray" => Constructor::Subarray,
        "Type_create_darray" => Constructor::Darray,
        "Type_match_size" => Constructor::MatchSize,
        "Type_create_f90_real" => Constructor::Numeric(1),
        "Type_create_f90_complex" => Constructor::Numeric(2),
        "Type_create_f90_integer" => Constructor::Range,
        _ => return None,
    })
}

/// Whether the function of this name (without `MPI_` and `_c`) makes a datatype.
pub(crate) fn is_datatype_constructor(name: &str) -> bool {
    constructor(name).is_some()
}

impl Datatypes {
    pub(crate) fn new(implementation: Implementation) -> Self {
        Self {
            implementation,
            known: Registry::default(),
            next: 0,
        }
    }

    /// Makes a predefined datatype known by its handle.
    pub(crate) fn learn_predefined(&mut self, handle: u64, index: u16) {
        self.known.insert(handle, Datatype::Predefined(index));
    }

    /// The datatype that a handle names.
    pub(crate) fn get(&self, handle: u64) -> Datatype {
        if let Some(datatype) = self.known.get(handle) {
            return *datatype;
        }
        if self.implementation != Implementation::Mpich {
            return Datatype::Unknown;
        }
        match (by_mpich_handle(handle), size_in_mpich_handle(handle)) {
            (Some(index), _) => Datatype::Predefined(index),
            (None, Some(size)) => Datatype::Derived {
                // A built-in one newer than the table: its handle is name enough.
                number: handle as u32,
                size,
            },
            (None, None) => Datatype::Unknown,
        }
    }

    /// Bytes of data in one element; `None` when unknown.
    pub(crate) fn size(&self, handle: u64) -> Option<u64> {
        self.get(handle).size()
    }

    /// A constructor returned `handle`.
    pub(crate) fn construct(&mut self, handle: u64, arguments: &mut Arguments<'_>) -> Datatype {
        let size = self.constructed_size(arguments);
        self.define(handle, size)
    }

    /// The program learned a datatype's size: where it was not known, now it is.
    pub(crate) fn learn_size(&mut self, handle: u64, size: u64) -> Option<Datatype> {
        if self.get(handle) != Datatype::Unknown {
            return None;
        }
        Some(self.define(handle, Some(size)))
    }

    pub(crate) fn free(&mut self, handle: u64) {
        if !matches!(self.known.get(handle), Some(Datatype::Predefined(_))) {
            self.known.remove(handle);
        }
    }

    pub(crate) fn take_forgotten(&mut self) -> u64 {
        self.known.take_forgotten()
    }

    fn define(&mut self, handle: u64, size: Option<u64>) -> Datatype {
        // Some constructors return a predefined datatype.
        if let known @ Datatype::Predefined(_) = self.get(handle) {
            return known;
        }
        let Some(size) = size else {
            self.known.remove(handle);
            return Datatype::Unknown;
        };
        let datatype = Datatype::Derived {
            number: self.next,
            size,
        };
        self.next = self.next.wrapping_add(1);
        self.known.insert(handle, datatype);
        datatype
    }

    fn constructed_size(&self, arguments: &mut Arguments<'_>) -> Option<u64> {
        let name = arguments.function();
        let name = name.strip_prefix("MPI_").unwrap_or(name);
        let name = name.strip_suffix("_c").unwrap_or(name);
        let elements = match constructor(name)? {
            Constructor::Same => 1,
            Constructor::Contiguous => arguments.count("count")?,
            Constructor::Vector => {
                let (count, block) = (arguments.count("count")?, arguments.count("blocklength")?);
                count.saturating_mul(block)
            }
            Constructor::Indexed => {
                let lengths = lengths(arguments)?;
                lengths.into_iter().fold(0, u64::saturating_add)
            }
            Constructor::Struct => return self.struct_size(arguments),
            Constructor::Subarray => product(&counts(arguments, "array_of_subsizes", "ndims")?),
            Constructor::Darray => darray_elements(arguments)?,
            Constructor::MatchSize => return arguments.count("size"),
            Constructor::Numeric(parts) => return Some(parts * real_size(arguments)),
            Constructor::Range => return Some(integer_size(arguments)),
        };
        let old = self.size(arguments.word("oldtype")?)?;
        Some(elements.saturating_mul(old))
    }

    fn struct_size(&self, arguments: &mut Arguments<'_>) -> Option<u64> {
        let lengths = lengths(arguments)?;
        let types = arguments.handles("array_of_types", lengths.len() as u64)?;
        let mut total = 0u64;
        for (length, handle) in lengths.into_iter().zip(types) {
            // MPI-1's bounds have no data, and MPICH says so in their handles.
            let size = if length == 0 { 0 } else { self.size(handle)? };
            total = total.saturating_add(length.saturating_mul(size));
        }
        Some(total)
    }
}

/// Bytes of the smallest real with the decimal digits `p` and the exponent range `r` (MPI-4.0,
/// 19.1.9); `MPI_UNDEFINED` asks for nothing. As the two choose it on x86-64.
fn real_size(arguments: &Arguments<'_>) -> u64 {
    let (digits, range) = (arguments.int("p"), arguments.int("r"));
    let (digits, range) = (digits.unwrap_or(0), range.unwrap_or(0));
    let (single, double) = match arguments.implementation {
        Implementation::Mpich => (37, 307),
        Implementation::OpenMpi => (38, 308),
    };
    match (digits, range) {
        _ if digits <= 6 && range <= single => 4,
        _ if digits <= 15 && range <= double => 8,
        _ => 16,
    }
}

/// Bytes of the smallest integer with `r` decimal digits.
fn integer_size(arguments: &Arguments<'_>) -> u64 {
    match arguments.int("r").unwrap_or(0) {
        ..=2 => 1,
        3..=4 => 2,
        5..=9 => 4,
        10..=18 => 8,
        _ => 16,
    }
}

fn lengths(arguments: &mut Arguments<'_>) -> Option<Vec<u64>> {
    counts(arguments, "array_of_blocklengths", "count")
}

/// The array `name`, as long as the argument `length` says; `None` when that is too
/// long to be believed.
fn counts(arguments: &mut Arguments<'_>, name: &str, length: &str) -> Option<Vec<u64>> {
    let length = arguments.count(length)?;
    let entries = arguments.integers(name, length)?;
    (entries.len() as u64 == length).then(|| {
        entries
            .into_iter()
            .map(|entry| u64::try_from(entry).unwrap_or(0))
            .collect()
    })
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}

/// Elements in a process's share of a grid distributed over processes in row-major
/// order: the product over the dimensions (MPI-4.0, 5.1.4).
fn darray_elements(arguments: &mut Arguments<'_>) -> Option<u64> {
    let sizes = counts(arguments, "array_of_gsizes", "ndims")?;
    let processes = counts(arguments, "array_of_psizes", "ndims")?;
    let dimensions = sizes.len() as u64;
    let distributions = arguments.integers("array_of_distribs", dimensions)?;
    let chunks = arguments.integers("array_of_dargs", dimensions)?;
    let mut rank = arguments.count("rank")?;
    let mut elements = 1u64;
    let rows = sizes
        .iter()
        .zip(&processes)
        .zip(distributions.iter().zip(&chunks));
    // The last dimension's coordinate changes fastest with the rank.
    for ((&size, &processes), (&distribution, &chunk)) in rows.rev() {
        let processes = processes.max(1);
        let position = rank % processes;
        rank /= processes;
        // BLOCK, CYCLIC, NONE: 121 to 123 in MPICH, 0 to 2 in Open MPI.
        let share = match distribution {
            0 | 121 => {
                let block = u64::try_from(chunk).unwrap_or(size.div_ceil(processes));
                let start = position.saturating_mul(block).min(size);
                block.min(size - start)
            }
            1 | 122 => {
                let block = u64::try_from(chunk).unwrap_or(1).max(1);
                cyclic_share(size, processes, position, block)
            }
            _ => size,
        };
        elements = elements.saturating_mul(share);
    }
    Some(elements)
}

/// How many of `size` elements process `position` of `processes` gets when blocks of `block` are dealt
/// out in turn.
fn cyclic_share(size: u64, processes: u64, position: u64, block: u64) -> u64 {
    let round = processes.saturating_mul(block);
    let rest = size % round;
    let start = position.saturating_mul(block).min(rest);
    (size / round).saturating_mul(block) + block.min(rest - start)
}
