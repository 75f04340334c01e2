//! Bounds of constructed datatypes, from their constructors' arguments.
//!
//! Reads the positions of blocks of the old type from the arguments; `None` if one of them, or the old type's bounds,
//! are unknown. Used by `datatypes` when constructors return.

use belljar_trace::{Bounds, MpiLibrary};

use super::sizes::{counts, integer_size, lengths, product, real_size};
use super::{Constructor, Datatypes, Unit, constructor_of};
use crate::decode::arguments::Arguments;
use crate::objects::bounds::Layout;

impl Datatypes {
    /// Returns the layout of the datatype that a constructor created.
    pub(super) fn constructed_layout(&self, arguments: &mut Arguments<'_>) -> Option<Layout> {
        let constructor = constructor_of(arguments)?;
        let number = |size: u64, parts| Some(Layout::of_bytes(parts * size, size));
        match constructor {
            Constructor::Struct => return self.structure(arguments),
            Constructor::MatchSize => {
                let size = arguments.count("size")?;
                return Some(Layout::of_bytes(size, size.min(16)));
            }
            Constructor::Numeric(parts) => return number(real_size(arguments), parts),
            Constructor::Range => return number(integer_size(arguments), 1),
            _ => {}
        }
        let old = self.layout(arguments.word("oldtype")?)?;
        let made = match constructor {
            Constructor::Resized => old.resized(Bounds {
                lower: signed(arguments, "lb")?,
                extent: signed(arguments, "extent")?,
            }),
            Constructor::Contiguous => old.block(0, arguments.count("count")?),
            Constructor::Vector(unit) => vector(old, unit, arguments)?,
            Constructor::Blocks(unit) => {
                let count = arguments.count("count")?;
                let length = arguments.count("blocklength")?;
                let blocks = displacements(count, arguments)?.into_iter();
                indexed(old, unit, blocks.map(|at| (at, length)))
            }
            Constructor::Indexed(unit) => {
                let lengths = lengths(arguments)?;
                let displacements = displacements(lengths.len() as u64, arguments)?;
                indexed(old, unit, displacements.into_iter().zip(lengths))
            }
            Constructor::Subarray => grid(old, "array_of_sizes", arguments)?,
            Constructor::Darray => grid(old, "array_of_gsizes", arguments)?,
            _ => old,
        };
        // MPICH only aligns structures.
        match self.implementation.library() {
            MpiLibrary::Mpich => Some(made),
            MpiLibrary::OpenMpi => Some(made.padded()),
            MpiLibrary::Unknown => Some(made).filter(|made| *made == made.padded()),
        }
    }

    fn structure(&self, arguments: &mut Arguments<'_>) -> Option<Layout> {
        let lengths = lengths(arguments)?;
        let count = lengths.len() as u64;
        let displacements = displacements(count, arguments)?;
        let types = arguments.handles("array_of_types", count)?;
        let mut all = Layout::EMPTY;
        for ((at, length), handle) in displacements.into_iter().zip(lengths).zip(types) {
            if length > 0 {
                all = all.and(self.layout(handle)?.block(at, length));
            }
        }
        Some(all.padded())
    }
}

/// Returns the value of an argument that may be negative.
fn signed(arguments: &Arguments<'_>, name: &str) -> Option<i64> {
    arguments.word(name).map(u64::cast_signed)
}

/// Returns the displacements of blocks; `None` if not all of them can be read.
pub(super) fn displacements(count: u64, arguments: &mut Arguments<'_>) -> Option<Vec<i64>> {
    let read = arguments.integers("array_of_displacements", count)?;
    (read.len() as u64 == count).then_some(read)
}

/// Returns the bytes in a unit of displacements.
fn bytes(unit: Unit, old: Layout) -> i64 {
    match unit {
        Unit::Byte => 1,
        Unit::Extent => old.bounds().extent,
    }
}

/// Returns the layout of blocks at multiples of a stride: the first and the last are the outermost.
fn vector(old: Layout, unit: Unit, arguments: &Arguments<'_>) -> Option<Layout> {
    let (count, length) = (arguments.count("count")?, arguments.count("blocklength")?);
    let Some(last) = count.checked_sub(1) else {
        return Some(Layout::EMPTY);
    };
    let stride = signed(arguments, "stride")?.saturating_mul(bytes(unit, old));
    let last = i64::try_from(last).unwrap_or(i64::MAX);
    let last = stride.saturating_mul(last);
    Some(old.block(0, length).and(old.block(last, length)))
}

fn indexed(old: Layout, unit: Unit, blocks: impl Iterator<Item = (i64, u64)>) -> Layout {
    let unit = bytes(unit, old);
    let blocks = blocks.map(|(at, length)| old.block(at.saturating_mul(unit), length));
    blocks.fold(Layout::EMPTY, Layout::and)
}

/// Returns the layout of a part of a grid, which has the whole grid's bounds.
fn grid(old: Layout, sizes: &str, arguments: &mut Arguments<'_>) -> Option<Layout> {
    let elements = product(&counts(arguments, sizes, "ndims")?);
    let elements = i64::try_from(elements).unwrap_or(i64::MAX);
    Some(old.resized(Bounds {
        lower: 0,
        extent: elements.saturating_mul(old.bounds().extent),
    }))
}
