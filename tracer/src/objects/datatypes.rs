//! The datatypes of a process.
//!
//! A datatype's size and bounds are known from a constructor's arguments, or from the program's queries. If unknown,
//! they are `None`, and bytes of messages with it count as 0. Used at entry for sizes, at return for new ones.

/// Blocks of constructed datatypes.
mod blocks;
/// Shares of distributed grids.
mod darray;
/// Bounds of constructed datatypes.
mod layouts;
/// Datatypes within constructed ones.
mod parts;
/// Sizes and counts of arguments.
mod sizes;

use belljar_trace::datatypes::{PREDEFINED, by_handle, size_in_handle};
use belljar_trace::{Bounds, Datatype, DatatypeContents, Implementation};
use bincode::{Decode, Encode};

use crate::decode::arguments::Arguments;
use crate::objects::bounds::Layout;
use crate::objects::registry::Registry;
use blocks::Block;
use darray::DistributedGrid;
use sizes::{counts, integer_size, lengths, product, real_size};

/// Datatypes by handle.
#[derive(Debug, Encode, Decode)]
pub(crate) struct Datatypes {
    implementation: Implementation,
    known: Registry<Known>,
    next: u32,
}

/// A datatype, and its layout, if known.
#[derive(Clone, Debug, Encode, Decode)]
struct Known {
    datatype: Datatype,
    layout: Option<Layout>,
    /// The blocks of data in an element, if known.
    blocks: Option<Vec<Block>>,
}

/// The rule by which a constructor's result follows from its arguments: blocks of the old type.
#[derive(Clone, Copy, Debug)]
enum Constructor {
    /// The old type.
    Same,
    /// The old type with other bounds.
    Resized,
    /// `count` elements of the old type.
    Contiguous,
    /// `count` blocks of `blocklength`, at multiples of `stride`.
    Vector(Unit),
    /// `count` blocks of `blocklength`, at the displacements of an array.
    Blocks(Unit),
    /// Blocks with lengths and displacements of arrays.
    Indexed(Unit),
    /// The same, of different types.
    Struct,
    /// A box within a grid.
    Subarray,
    /// This process's share of a distributed grid.
    Darray,
    /// A type with a size from the arguments.
    MatchSize,
    /// A Fortran type of a precision and a range, with this number of parts.
    Numeric(u64),
    /// A Fortran integer of a range.
    Range,
}

/// The unit of displacements and strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Byte,
    /// The old type's extent.
    Extent,
}

fn constructor(name: &str) -> Option<Constructor> {
    Some(match name {
        "Type_dup" => Constructor::Same,
        "Type_create_resized" => Constructor::Resized,
        "Type_contiguous" => Constructor::Contiguous,
        "Type_vector" => Constructor::Vector(Unit::Extent),
        "Type_hvector" | "Type_create_hvector" => Constructor::Vector(Unit::Byte),
        "Type_create_indexed_block" => Constructor::Blocks(Unit::Extent),
        "Type_create_hindexed_block" => Constructor::Blocks(Unit::Byte),
        "Type_indexed" => Constructor::Indexed(Unit::Extent),
        "Type_hindexed" | "Type_create_hindexed" => Constructor::Indexed(Unit::Byte),
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

fn constructor_of(arguments: &Arguments<'_>) -> Option<Constructor> {
    constructor(arguments.base())
}

/// Returns the layout of a predefined datatype.
fn predefined(index: u16) -> Option<Layout> {
    PREDEFINED
        .get(usize::from(index))
        .map(Layout::of_predefined)
}

/// True if the base function of this name creates a datatype.
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

    /// Registers a predefined datatype by its handle.
    pub(crate) fn learn_predefined(&mut self, handle: u64, index: u16) {
        let known = Known {
            datatype: Datatype::Predefined(index),
            layout: predefined(index),
            blocks: PREDEFINED
                .get(usize::from(index))
                .map(|row| vec![(0, row.extent())]),
        };
        self.known.insert(handle, known);
    }

    /// Returns the datatype that a handle refers to.
    pub(crate) fn get(&self, handle: u64) -> Datatype {
        if let Some(known) = self.known.get(handle) {
            return known.datatype;
        }
        let known = by_handle(self.implementation, handle);
        match (known, size_in_handle(self.implementation, handle)) {
            (Some(index), _) => Datatype::Predefined(index),
            (None, Some(size)) => Datatype::Derived {
                // A built-in one newer than the table: its handle suffices as its number.
                number: handle as u32,
                size,
            },
            (None, None) => Datatype::Unknown,
        }
    }

    /// Returns the bytes of data in one element; `None` if unknown.
    pub(crate) fn size(&self, handle: u64) -> Option<u64> {
        self.get(handle).size()
    }

    /// Returns the layout of the datatype that a handle refers to; `None` if unknown.
    fn layout(&self, handle: u64) -> Option<Layout> {
        match (self.known.get(handle), self.get(handle)) {
            (Some(known), _) => known.layout,
            (None, Datatype::Predefined(index)) => predefined(index),
            (None, Datatype::Derived { size, .. }) => Some(Layout::of_bytes(size, size.min(16))),
            (None, Datatype::Unknown) => None,
        }
    }

    /// Returns the bounds of the datatype that a handle refers to; `None` if unknown.
    pub(crate) fn bounds(&self, handle: u64) -> Option<Bounds> {
        self.layout(handle).map(Layout::bounds)
    }

    /// Handles a constructor that returned `handle`.
    pub(crate) fn construct(
        &mut self,
        handle: u64,
        arguments: &mut Arguments<'_>,
    ) -> (Datatype, DatatypeContents) {
        let size = self.constructed_size(arguments);
        let layout = size.and_then(|_| self.constructed_layout(arguments));
        let blocks = size.and_then(|_| self.constructed_blocks(arguments));
        let parts = size.and_then(|_| self.constructed_parts(arguments));
        let contents = DatatypeContents {
            parts,
            blocks: blocks.clone(),
        };
        (self.define(handle, size, layout, blocks), contents)
    }

    /// Records a datatype's size from a query, if it was unknown.
    pub(crate) fn learn_size(&mut self, handle: u64, size: u64) -> Option<Datatype> {
        if self.get(handle) != Datatype::Unknown {
            return None;
        }
        Some(self.define(handle, Some(size), None, None))
    }

    /// Records a datatype's bounds from a query, if they were unknown or different.
    pub(crate) fn learn_bounds(&mut self, handle: u64, bounds: Bounds) -> Option<Datatype> {
        let known = self.known.get_mut(handle)?;
        if known.layout.map(Layout::bounds) == Some(bounds) {
            return None;
        }
        let layout = known.layout.unwrap_or(Layout::EMPTY);
        known.layout = Some(layout.resized(bounds));
        Some(known.datatype)
    }

    pub(crate) fn free(&mut self, handle: u64) {
        let known = self.known.get(handle).map(|known| known.datatype);
        if !matches!(known, Some(Datatype::Predefined(_))) {
            self.known.remove(handle);
        }
    }

    pub(crate) fn take_forgotten(&mut self) -> u64 {
        self.known.take_forgotten()
    }

    fn define(
        &mut self,
        handle: u64,
        size: Option<u64>,
        layout: Option<Layout>,
        blocks: Option<Vec<Block>>,
    ) -> Datatype {
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
        let known = Known {
            datatype,
            layout,
            blocks,
        };
        self.known.insert(handle, known);
        datatype
    }

    fn constructed_size(&self, arguments: &mut Arguments<'_>) -> Option<u64> {
        match constructor_of(arguments)? {
            Constructor::Struct => return self.struct_size(arguments),
            Constructor::MatchSize => return arguments.count("size"),
            Constructor::Numeric(parts) => return Some(parts * real_size(arguments)),
            Constructor::Range => return Some(integer_size(arguments)),
            _ => {}
        }
        let elements = elements(arguments)?;
        let old = self.size(arguments.word("oldtype")?)?;
        Some(elements.saturating_mul(old))
    }

    fn struct_size(&self, arguments: &mut Arguments<'_>) -> Option<u64> {
        let lengths = lengths(arguments)?;
        let types = arguments.handles("array_of_types", lengths.len() as u64)?;
        let mut total = 0u64;
        for (length, handle) in lengths.into_iter().zip(types) {
            // MPI-1's bounds have no data, but MPICH's handles claim a size.
            let size = if length == 0 { 0 } else { self.size(handle)? };
            total = total.saturating_add(length.saturating_mul(size));
        }
        Some(total)
    }
}

/// Returns the number of elements of the old type in a datatype that is made of one old type.
fn elements(arguments: &mut Arguments<'_>) -> Option<u64> {
    Some(match constructor_of(arguments)? {
        Constructor::Same | Constructor::Resized => 1,
        Constructor::Contiguous => arguments.count("count")?,
        Constructor::Vector(_) | Constructor::Blocks(_) => {
            let (count, block) = (arguments.count("count")?, arguments.count("blocklength")?);
            count.saturating_mul(block)
        }
        Constructor::Indexed(_) => {
            let lengths = lengths(arguments)?;
            lengths.into_iter().fold(0, u64::saturating_add)
        }
        Constructor::Subarray => product(&counts(arguments, "array_of_subsizes", "ndims")?),
        Constructor::Darray => DistributedGrid::of(arguments)?.elements(),
        Constructor::Struct
        | Constructor::MatchSize
        | Constructor::Numeric(_)
        | Constructor::Range => return None,
    })
}
