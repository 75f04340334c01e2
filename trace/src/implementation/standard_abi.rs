//! Predefined handles of the standard ABI of MPI 5.0, which are small constants.
//!
//! Source: `mpi_abi.h`. Values below 0x1000 are constants of the standard; all other handles are the library's own pointers.
//! Used by tracers to identify handles, and by listings for names.

/// `MPI_COMM_NULL`.
pub const COMM_NULL: u64 = 0x100;
/// `MPI_COMM_WORLD`.
pub const COMM_WORLD: u64 = 0x101;
/// `MPI_COMM_SELF`.
pub const COMM_SELF: u64 = 0x102;
/// `MPI_NO_OP`.
pub const NO_OP: u64 = 0x3d;
/// `MPI_DISTRIBUTE_DFLT_DARG`, the default argument of a distribution.
pub const DISTRIBUTE_DEFAULT: i64 = 19;

/// Predefined reductions by handle.
const OPERATIONS: [(u64, &str); 15] = [
    (0x20, "MPI_OP_NULL"),
    (0x21, "MPI_SUM"),
    (0x22, "MPI_MIN"),
    (0x23, "MPI_MAX"),
    (0x24, "MPI_PROD"),
    (0x28, "MPI_BAND"),
    (0x29, "MPI_BOR"),
    (0x2a, "MPI_BXOR"),
    (0x30, "MPI_LAND"),
    (0x31, "MPI_LOR"),
    (0x32, "MPI_LXOR"),
    (0x38, "MPI_MINLOC"),
    (0x39, "MPI_MAXLOC"),
    (0x3c, "MPI_REPLACE"),
    (NO_OP, "MPI_NO_OP"),
];

/// Returns the name of the predefined reduction with this handle.
pub fn operation(handle: u64) -> Option<&'static str> {
    let mut all = OPERATIONS.iter();
    let found = all.find(|(known, _)| *known == handle)?;
    Some(found.1)
}

#[cfg(test)]
mod tests;
