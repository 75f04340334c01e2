//! Blocks of constructed datatypes: where an element has data, and where it has gaps.
//!
//! Reads the positions of blocks of the old type from a constructor's arguments. Adjacent blocks are joined, in the order of
//! the type map. Datatypes with very many blocks have unknown ones. Used by `datatypes` when constructors return.

use belljar_trace::{Implementation, MOST_CONTENTS};

use super::layouts::displacements;
use super::sizes::{counts, lengths};
use super::{Constructor, Datatypes, DistributedGrid, Unit, constructor_of};
use crate::decode::arguments::Arguments;

/// Most blocks of a datatype.
const MOST_BLOCKS: usize = MOST_CONTENTS;
/// Most steps in the computation of the blocks of a datatype.
const MOST_PLACED: u64 = 1 << 16;
/// Most runs of elements of a distributed grid.
const MOST_RUNS: usize = 1 << 16;

/// A block of data: its offset in the element, and its length, in bytes.
pub(crate) type Block = (i64, u64);

/// Blocks in the making.
#[derive(Default)]
struct Joined {
    blocks: Vec<Block>,
    placed: u64,
}

impl Joined {
    /// Adds a block; `None` if there are too many.
    fn add(&mut self, (at, bytes): Block) -> Option<()> {
        self.place()?;
        if bytes == 0 {
            return Some(());
        }
        if let Some((start, length)) = self.blocks.last_mut()
            && start.checked_add_unsigned(*length) == Some(at)
        {
            *length = length.checked_add(bytes)?;
            return Some(());
        }
        self.blocks.push((at, bytes));
        (self.blocks.len() <= MOST_BLOCKS).then_some(())
    }

    /// Counts a step; `None` if there were too many.
    fn place(&mut self) -> Option<()> {
        self.placed += 1;
        (self.placed <= MOST_PLACED).then_some(())
    }

    /// Adds `count` elements of the old type from offset `at` on.
    fn add_elements(&mut self, old: &OldType<'_>, at: i64, count: u64) -> Option<()> {
        if let [(first, bytes)] = old.blocks
            && i64::try_from(*bytes) == Ok(old.extent)
        {
            return self.add((at.checked_add(*first)?, bytes.checked_mul(count)?));
        }
        for element in 0..count {
            self.place()?;
            let start = at.checked_add(element.cast_signed().checked_mul(old.extent)?)?;
            for (offset, bytes) in old.blocks {
                self.add((start.checked_add(*offset)?, *bytes))?;
            }
        }
        Some(())
    }
}

/// The type from which another one is made.
struct OldType<'a> {
    blocks: &'a [Block],
    extent: i64,
}

impl Datatypes {
    /// Returns the blocks of an element of a datatype, and its extent; `None` if unknown.
    pub(crate) fn blocks(&self, handle: u64) -> Option<(Vec<Block>, i64)> {
        let extent = self.bounds(handle)?.extent;
        match self.known.get(handle) {
            Some(known) => Some((known.blocks.clone()?, extent)),
            None => Some((vec![(0, self.size(handle)?)], extent)),
        }
    }

    /// Returns the blocks of the datatype that a constructor created.
    pub(super) fn constructed_blocks(&self, arguments: &mut Arguments<'_>) -> Option<Vec<Block>> {
        let constructor = constructor_of(arguments)?;
        match constructor {
            Constructor::Struct => return self.structure_blocks(arguments),
            Constructor::MatchSize | Constructor::Numeric(_) | Constructor::Range => {
                return Some(vec![(0, self.constructed_size(arguments)?)]);
            }
            _ => {}
        }
        let (blocks, extent) = self.blocks(arguments.word("oldtype")?)?;
        let old = OldType {
            blocks: &blocks,
            extent,
        };
        let mut joined = Joined::default();
        let unit_bytes = |unit| match unit {
            Unit::Byte => 1,
            Unit::Extent => extent,
        };
        match constructor {
            Constructor::Same | Constructor::Resized => return Some(blocks),
            Constructor::Contiguous => joined.add_elements(&old, 0, arguments.count("count")?)?,
            Constructor::Vector(unit) => {
                let stride = arguments.word("stride")?.cast_signed();
                let stride = stride.checked_mul(unit_bytes(unit))?;
                let length = arguments.count("blocklength")?;
                for block in 0..arguments.count("count")? {
                    let at = block.cast_signed().checked_mul(stride)?;
                    joined.add_elements(&old, at, length)?;
                }
            }
            Constructor::Blocks(unit) => {
                let length = arguments.count("blocklength")?;
                for at in displacements(arguments.count("count")?, arguments)? {
                    joined.add_elements(&old, at.checked_mul(unit_bytes(unit))?, length)?;
                }
            }
            Constructor::Indexed(unit) => {
                let lengths = lengths(arguments)?;
                let places = displacements(lengths.len() as u64, arguments)?;
                for (at, length) in places.into_iter().zip(lengths) {
                    joined.add_elements(&old, at.checked_mul(unit_bytes(unit))?, length)?;
                }
            }
            Constructor::Subarray => subarray(&old, arguments, &mut joined)?,
            Constructor::Darray => {
                let is_fortran = is_fortran_order(arguments)?;
                let grid = DistributedGrid::of(arguments)?;
                for (first, length) in grid.runs(is_fortran, MOST_RUNS)? {
                    let at = i64::try_from(first).ok()?.checked_mul(extent)?;
                    joined.add_elements(&old, at, length)?;
                }
            }
            Constructor::Struct
            | Constructor::MatchSize
            | Constructor::Numeric(_)
            | Constructor::Range => return None,
        }
        Some(joined.blocks)
    }

    fn structure_blocks(&self, arguments: &mut Arguments<'_>) -> Option<Vec<Block>> {
        let lengths = lengths(arguments)?;
        let count = lengths.len() as u64;
        let places = displacements(count, arguments)?;
        let types = arguments.handles("array_of_types", count)?;
        let mut joined = Joined::default();
        for ((at, length), handle) in places.into_iter().zip(lengths).zip(types) {
            if length > 0 {
                let (blocks, extent) = self.blocks(handle)?;
                let old = OldType {
                    blocks: &blocks,
                    extent,
                };
                joined.add_elements(&old, at, length)?;
            }
        }
        Some(joined.blocks)
    }
}

/// `MPI_ORDER_FORTRAN`.
fn order_fortran(implementation: Implementation) -> i32 {
    match implementation {
        Implementation::Mpich => 57,
        Implementation::OpenMpi => 1,
        Implementation::StandardAbi(_) => 15,
    }
}

/// True if the first dimension of a grid is contiguous.
fn is_fortran_order(arguments: &Arguments<'_>) -> Option<bool> {
    Some(arguments.int("order")? == order_fortran(arguments.implementation))
}

/// Adds the rows of a box within a grid.
fn subarray(old: &OldType<'_>, arguments: &mut Arguments<'_>, joined: &mut Joined) -> Option<()> {
    let mut grid = counts(arguments, "array_of_sizes", "ndims")?;
    let mut part = counts(arguments, "array_of_subsizes", "ndims")?;
    let mut first = counts(arguments, "array_of_starts", "ndims")?;
    if grid.is_empty() || part.len() != grid.len() || first.len() != grid.len() {
        return None;
    }
    // In Fortran's order the first dimension is contiguous.
    if is_fortran_order(arguments)? {
        for dimensions in [&mut grid, &mut part, &mut first] {
            dimensions.reverse();
        }
    }
    let last = grid.len() - 1;
    let rows = part[..last]
        .iter()
        .try_fold(1_u64, |all, one| all.checked_mul(*one))?;
    if rows > MOST_PLACED {
        return None;
    }
    for row in 0..rows {
        let (mut rest, mut at, mut step) = (row, first[last], grid[last]);
        for dimension in (0..last).rev() {
            let own = first[dimension].checked_add(rest % part[dimension])?;
            rest /= part[dimension];
            at = at.checked_add(own.checked_mul(step)?)?;
            step = step.checked_mul(grid[dimension])?;
        }
        let at = i64::try_from(at).ok()?.checked_mul(old.extent)?;
        joined.add_elements(old, at, part[last])?;
    }
    Some(())
}
