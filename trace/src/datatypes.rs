//! Predefined datatypes: names, sizes, and each implementation's handles.
//!
//! Traces hold a row's index, so the order of rows is part of the trace's format. Called by tracers for
//! handles in a program's memory, and by dumps for names.

use crate::implementation::Implementation;

/// A predefined datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predefined {
    /// Its name in the standard.
    pub name: &'static str,
    /// Bytes of data in one element (`MPI_Type_size` on x86-64).
    pub size: u32,
    /// MPICH's handle (from its `mpi.h`); 0 if MPICH has no such handle.
    mpich: u32,
    /// The standard ABI's handle (from `mpi_abi.h`); 0 if the ABI has no such handle.
    standard: u32,
    /// Open MPI's object, by its symbol; empty if its address is unknown.
    open_mpi: &'static str,
}

impl Predefined {
    /// Returns its alignment in C on x86-64, in bytes.
    pub fn alignment(&self) -> u64 {
        let size = u64::from(self.size);
        let alignment = match self.name {
            "MPI_FLOAT_INT" | "MPI_SHORT_INT" => 4,
            "MPI_DOUBLE_INT" | "MPI_LONG_INT" => 8,
            "MPI_LONG_DOUBLE_INT" => 16,
            "MPI_2COMPLEX" | "MPI_2DOUBLE_COMPLEX" => size / 4,
            name if name.contains("COMPLEX") || name.starts_with("MPI_2") => size / 2,
            _ => size,
        };
        alignment.max(1)
    }

    /// Returns the bytes from one element to the next: the size, padded to the alignment.
    pub fn extent(&self) -> u64 {
        u64::from(self.size).next_multiple_of(self.alignment())
    }
}

const fn row(
    name: &'static str,
    size: u32,
    mpich: u32,
    standard: u32,
    open_mpi: &'static str,
) -> Predefined {
    Predefined {
        name,
        size,
        mpich,
        standard,
        open_mpi,
    }
}

/// All known predefined datatypes; [`Datatype::Predefined`](crate::Datatype) indexes it.
#[rustfmt::skip]
pub static PREDEFINED: &[Predefined] = &[
    row("MPI_BYTE", 1, 0x4c00_010d, 0x247, "ompi_mpi_byte"),
    row("MPI_PACKED", 1, 0x4c00_010f, 0x207, "ompi_mpi_packed"),
    row("MPI_CHAR", 1, 0x4c00_0101, 0x243, "ompi_mpi_char"),
    row("MPI_SIGNED_CHAR", 1, 0x4c00_0118, 0x244, "ompi_mpi_signed_char"),
    row("MPI_UNSIGNED_CHAR", 1, 0x4c00_0102, 0x245, "ompi_mpi_unsigned_char"),
    row("MPI_SHORT", 2, 0x4c00_0203, 0x208, "ompi_mpi_short"),
    row("MPI_UNSIGNED_SHORT", 2, 0x4c00_0204, 0x20c, "ompi_mpi_unsigned_short"),
    row("MPI_INT", 4, 0x4c00_0405, 0x209, "ompi_mpi_int"),
    row("MPI_UNSIGNED", 4, 0x4c00_0406, 0x20d, "ompi_mpi_unsigned"),
    row("MPI_LONG", 8, 0x4c00_0807, 0x20a, "ompi_mpi_long"),
    row("MPI_UNSIGNED_LONG", 8, 0x4c00_0808, 0x20e, "ompi_mpi_unsigned_long"),
    row("MPI_LONG_LONG", 8, 0x4c00_0809, 0x20b, "ompi_mpi_long_long_int"),
    row("MPI_UNSIGNED_LONG_LONG", 8, 0x4c00_0819, 0x20f, "ompi_mpi_unsigned_long_long"),
    row("MPI_FLOAT", 4, 0x4c00_040a, 0x210, "ompi_mpi_float"),
    row("MPI_DOUBLE", 8, 0x4c00_080b, 0x214, "ompi_mpi_double"),
    row("MPI_LONG_DOUBLE", 16, 0x4c00_100c, 0x220, "ompi_mpi_long_double"),
    row("MPI_WCHAR", 4, 0x4c00_040e, 0x23c, "ompi_mpi_wchar"),
    row("MPI_INT8_T", 1, 0x4c00_0137, 0x240, "ompi_mpi_int8_t"),
    row("MPI_UINT8_T", 1, 0x4c00_013b, 0x241, "ompi_mpi_uint8_t"),
    row("MPI_INT16_T", 2, 0x4c00_0238, 0x248, "ompi_mpi_int16_t"),
    row("MPI_UINT16_T", 2, 0x4c00_023c, 0x249, "ompi_mpi_uint16_t"),
    row("MPI_INT32_T", 4, 0x4c00_0439, 0x250, "ompi_mpi_int32_t"),
    row("MPI_UINT32_T", 4, 0x4c00_043d, 0x251, "ompi_mpi_uint32_t"),
    row("MPI_INT64_T", 8, 0x4c00_083a, 0x258, "ompi_mpi_int64_t"),
    row("MPI_UINT64_T", 8, 0x4c00_083e, 0x259, "ompi_mpi_uint64_t"),
    row("MPI_AINT", 8, 0x4c00_0843, 0x201, "ompi_mpi_aint"),
    row("MPI_OFFSET", 8, 0x4c00_0844, 0x203, "ompi_mpi_offset"),
    row("MPI_COUNT", 8, 0x4c00_0845, 0x202, "ompi_mpi_count"),
    row("MPI_C_BOOL", 1, 0x4c00_013f, 0x238, "ompi_mpi_c_bool"),
    row("MPI_C_FLOAT_COMPLEX", 8, 0x4c00_0840, 0x212, "ompi_mpi_c_float_complex"),
    row("MPI_C_DOUBLE_COMPLEX", 16, 0x4c00_1041, 0x216, "ompi_mpi_c_double_complex"),
    row("MPI_C_LONG_DOUBLE_COMPLEX", 32, 0x4c00_2042, 0x224, "ompi_mpi_c_long_double_complex"),
    row("MPI_FLOAT_INT", 8, 0x8c00_0000, 0x228, "ompi_mpi_float_int"),
    row("MPI_DOUBLE_INT", 12, 0x8c00_0001, 0x229, "ompi_mpi_double_int"),
    row("MPI_LONG_INT", 12, 0x8c00_0002, 0x22a, "ompi_mpi_long_int"),
    row("MPI_SHORT_INT", 6, 0x8c00_0003, 0x22c, "ompi_mpi_short_int"),
    row("MPI_LONG_DOUBLE_INT", 20, 0x8c00_0004, 0x22d, "ompi_mpi_longdbl_int"),
    row("MPI_2INT", 8, 0x4c00_0816, 0x22b, "ompi_mpi_2int"),
    row("MPI_CXX_BOOL", 1, 0x4c00_0133, 0x239, "ompi_mpi_cxx_bool"),
    row("MPI_CXX_FLOAT_COMPLEX", 8, 0x4c00_0834, 0x213, "ompi_mpi_cxx_cplex"),
    row("MPI_CXX_DOUBLE_COMPLEX", 16, 0x4c00_1035, 0x217, "ompi_mpi_cxx_dblcplex"),
    row("MPI_CXX_LONG_DOUBLE_COMPLEX", 32, 0x4c00_2036, 0x225, "ompi_mpi_cxx_ldblcplex"),
    row("MPI_INTEGER", 4, 0x4c00_041b, 0x219, "ompi_mpi_integer"),
    row("MPI_REAL", 4, 0x4c00_041c, 0x21a, "ompi_mpi_real"),
    row("MPI_DOUBLE_PRECISION", 8, 0x4c00_081f, 0x21c, "ompi_mpi_dblprec"),
    row("MPI_COMPLEX", 8, 0x4c00_081e, 0x21b, "ompi_mpi_cplex"),
    row("MPI_DOUBLE_COMPLEX", 16, 0x4c00_1022, 0x21d, "ompi_mpi_dblcplex"),
    row("MPI_LOGICAL", 4, 0x4c00_041d, 0x218, "ompi_mpi_logical"),
    row("MPI_CHARACTER", 1, 0x4c00_011a, 0x21e, "ompi_mpi_character"),
    row("MPI_2INTEGER", 8, 0x4c00_0820, 0x232, "ompi_mpi_2integer"),
    row("MPI_2REAL", 8, 0x4c00_0821, 0x230, "ompi_mpi_2real"),
    row("MPI_2DOUBLE_PRECISION", 16, 0x4c00_1023, 0x231, "ompi_mpi_2dblprec"),
    row("MPI_INTEGER1", 1, 0x4c00_012d, 0x2c1, "ompi_mpi_integer1"),
    row("MPI_INTEGER2", 2, 0x4c00_022f, 0x2c9, "ompi_mpi_integer2"),
    row("MPI_INTEGER4", 4, 0x4c00_0430, 0x2d1, "ompi_mpi_integer4"),
    row("MPI_INTEGER8", 8, 0x4c00_0831, 0x2d9, "ompi_mpi_integer8"),
    row("MPI_REAL4", 4, 0x4c00_0427, 0x2d2, "ompi_mpi_real4"),
    row("MPI_REAL8", 8, 0x4c00_0829, 0x2da, "ompi_mpi_real8"),
    row("MPI_REAL16", 16, 0x4c00_102b, 0x2e2, "ompi_mpi_real16"),
    row("MPI_COMPLEX8", 8, 0x4c00_0828, 0x2db, "ompi_mpi_complex8"),
    row("MPI_COMPLEX16", 16, 0x4c00_102a, 0x2e3, "ompi_mpi_complex16"),
    row("MPI_COMPLEX32", 32, 0x4c00_202c, 0x2eb, "ompi_mpi_complex32"),
    row("MPI_2COMPLEX", 16, 0, 0, "ompi_mpi_2cplex"),
    row("MPI_2DOUBLE_COMPLEX", 32, 0, 0, "ompi_mpi_2dblcplex"),
    row("MPI_LOGICAL1", 1, 0, 0x2c0, "ompi_mpi_logical1"),
    row("MPI_LOGICAL2", 2, 0, 0x2c8, "ompi_mpi_logical2"),
    row("MPI_LOGICAL4", 4, 0, 0x2d0, "ompi_mpi_logical4"),
    row("MPI_LOGICAL8", 8, 0, 0x2d8, "ompi_mpi_logical8"),
    row("MPI_INTEGER16", 16, 0, 0x2e1, "ompi_mpi_integer16"),
    row("MPI_REAL2", 2, 0, 0x2ca, "ompi_mpi_real2"),
    row("MPIX_C_FLOAT16", 2, 0x4c00_0246, 0, ""),
    row("MPI_LB", 0, 0x4c00_0010, 0, "ompi_mpi_lb"),
    row("MPI_UB", 0, 0x4c00_0011, 0, "ompi_mpi_ub"),
    row("MPI_LOGICAL16", 16, 0, 0x2e0, ""),
    row("MPI_COMPLEX4", 4, 0, 0x2d3, ""),
];

/// Returns the predefined datatype with this MPICH handle.
pub fn by_mpich_handle(handle: u64) -> Option<u16> {
    let handle = u32::try_from(handle).ok().filter(|handle| *handle != 0)?;
    position(|row| row.mpich == handle)
}

/// Returns the size that MPICH encodes in the handle of a built-in datatype.
pub fn size_in_mpich_handle(handle: u64) -> Option<u64> {
    (handle >> 24 == 0x4c).then_some((handle >> 8) & 0xff)
}

/// Returns the predefined datatype with this handle of the standard ABI.
pub fn by_standard_handle(handle: u64) -> Option<u16> {
    let handle = u32::try_from(handle).ok().filter(|handle| *handle != 0)?;
    position(|row| row.standard == handle)
}

/// Returns the size in a handle of the standard ABI's datatypes of a fixed size, C's (`MPI_INT32_T`) and Fortran's (`MPI_REAL8`), whose bits
/// 3 to 5 are its logarithm.
pub fn size_in_standard_handle(handle: u64) -> Option<u64> {
    let fixed = (0x240..0x280).contains(&handle) || (0x2c0..0x300).contains(&handle);
    fixed.then_some(1 << ((handle >> 3) & 7))
}

/// Returns the predefined datatype with this constant handle.
pub fn by_handle(implementation: Implementation, handle: u64) -> Option<u16> {
    match implementation {
        Implementation::Mpich => by_mpich_handle(handle),
        Implementation::StandardAbi(_) => by_standard_handle(handle),
        Implementation::OpenMpi => None,
    }
}

/// Returns the size that this implementation encodes in a handle.
pub fn size_in_handle(implementation: Implementation, handle: u64) -> Option<u64> {
    match implementation {
        Implementation::Mpich => size_in_mpich_handle(handle),
        Implementation::StandardAbi(_) => size_in_standard_handle(handle),
        Implementation::OpenMpi => None,
    }
}

/// Returns the predefined datatype with this symbol of Open MPI.
pub fn by_open_mpi_symbol(symbol: &str) -> Option<u16> {
    position(|row| row.open_mpi == symbol)
}

fn position(is: impl Fn(&Predefined) -> bool) -> Option<u16> {
    PREDEFINED.iter().position(is).map(|index| index as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_agree_with_those_in_mpichs_handles() {
        for row in PREDEFINED {
            if let Some(size) = size_in_mpich_handle(row.mpich.into()) {
                assert_eq!(size, u64::from(row.size), "{}", row.name);
            }
        }
    }

    #[test]
    fn sizes_agree_with_those_in_the_standards_handles() {
        for row in PREDEFINED {
            if let Some(size) = size_in_standard_handle(row.standard.into()) {
                assert_eq!(size, u64::from(row.size), "{}", row.name);
            }
        }
        assert_eq!(size_in_standard_handle(0x209), None);
        assert_eq!(size_in_standard_handle(0x240 | 1 << 32), None);
    }

    #[test]
    fn pairs_are_padded_as_the_compiler_pads_them() {
        let row = |name| PREDEFINED.iter().find(|row| row.name == name).unwrap();
        for (name, extent) in [
            ("MPI_DOUBLE_INT", 16),
            ("MPI_SHORT_INT", 8),
            ("MPI_LONG_DOUBLE_INT", 32),
            ("MPI_FLOAT_INT", 8),
            ("MPI_2INT", 8),
            ("MPI_C_LONG_DOUBLE_COMPLEX", 32),
            ("MPI_LB", 0),
        ] {
            assert_eq!(row(name).extent(), extent, "{name}");
        }
        assert_eq!(row("MPI_C_DOUBLE_COMPLEX").alignment(), 8);
    }

    #[test]
    fn sizes_agree_with_those_told_of_open_mpis_objects() {
        let datatypes = belljar_abi::OPEN_MPI_OBJECTS
            .iter()
            .filter(|(_, size)| *size != 0);
        for (symbol, size) in datatypes {
            let index = by_open_mpi_symbol(symbol).unwrap_or_else(|| panic!("{symbol}"));
            assert_eq!(PREDEFINED[usize::from(index)].size, *size, "{symbol}");
        }
    }
}
