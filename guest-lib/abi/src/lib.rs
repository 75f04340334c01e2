//! The calling convention between the preloaded library in the guest and its host.
//!
//! All stubs of the library are in one text range at a fixed linear address. The stub of a wrapped MPI
//! function loads its operation number into R11 and jumps to the one magic `CPUID` at
//! [`MAGIC_ADDRESS`]. The host reads the argument registers and the stack, stores the continuation
//! address in R11, and resumes the guest after the instruction, where it jumps to R11. No other
//! register and no flag changes.
//!
//! A host that cannot watch return addresses replaces the one on the stack by an address in the
//! library ([`RETURN_OFFSET`]). The call then returns through the stub at [`RETURN_ADDRESS`] and the
//! same `CPUID` with [`OP_RETURN`]. The host stores the replaced address in a table of the process
//! ([`PENDING_OFFSET`]), from which the library's unwind information provides it to unwinders.
//!
//! An *operation* is a function by one of its names. Operations below the number of [`FUNCTIONS`] are
//! the names without a prefix; the same number after them are the `PMPI_` names of the profiling
//! interface, in the same order. A table has the target of each ([`TABLE_OFFSET`]).

/// Start of the text range with the stubs: an address at which neither the kernel's mmap, nor
/// position-independent programs, nor stacks are ever placed.
pub const STUB_BASE: u64 = 0x4a42_0000_0000;

/// Bytes of the stub range.
pub const STUB_LENGTH: u64 = 0x1_0000;

/// The linear address of the magic `CPUID`.
pub const MAGIC_ADDRESS: u64 = STUB_BASE;

/// The linear address of the stub through which a traced call returns.
pub const RETURN_ADDRESS: u64 = STUB_BASE + 0x10;

/// Offset in a stub of its jump to the magic instruction, after the load of R11.
pub const STUB_JUMP: u64 = 6;

/// The linear address of a jump to the magic `CPUID` in the same page: the return stub's.
pub const MAGIC_JUMP: u64 = RETURN_ADDRESS + STUB_JUMP;

/// The linear address of the `CPUID` by which the library reports facts. An engine that does not trap
/// every `CPUID` traps this one.
pub const FACT_ADDRESS: u64 = STUB_BASE + 0x20;

/// Address of the first function stub; function `i` enters at
/// `FIRST_STUB + i * STUB_SIZE`.
pub const FIRST_STUB: u64 = STUB_BASE + 0x40;

/// Bytes of one function's stub.
pub const STUB_SIZE: u64 = 16;

/// R11 at the magic instruction when a traced call returns. At entries it is the operation instead.
/// operation instead.
pub const OP_RETURN: u64 = 0xffff;

/// CPUID leaf for the detection of Belljar by a guest: EAX is [`ABI_VERSION`], optionally with
/// [`DETECT_INT3`]; EBX, ECX and EDX are [`SIGNATURE`].
pub const DETECT_LEAF: u32 = 0x4000_0100;

/// Text in the detection leaf, four bytes each in EBX, ECX, EDX.
pub const SIGNATURE: [u8; 12] = *b"BelljarGlass";

/// Version of this convention.
pub const ABI_VERSION: u32 = 3;

/// Bit of the detection leaf's EAX besides [`ABI_VERSION`]: on this processor the library must write
/// [`MAGIC_INT3`] instead of [`MAGIC_CPUID`].
pub const DETECT_INT3: u32 = 1 << 16;

/// The bytes of a magic instruction, `cpuid`.
pub const MAGIC_CPUID: [u8; 2] = [0x0f, 0xa2];

/// Replacement for hosts that stop only at breakpoint instructions: `int3; nop`, with the same length.
pub const MAGIC_INT3: [u8; 2] = [0xcc, 0x90];

/// CPUID leaf by which the library reports a fact about its process to the host (EBX is the fact's
/// number, RDI and RSI its values), at [`FACT_ADDRESS`]. The `exact` engine traps it at any address.
pub const FACT_LEAF: u32 = 0x4a42_0001;

use belljar_mpi::FUNCTIONS;

/// Number of operations.
pub const OPERATIONS: usize = 2 * FUNCTIONS.len();

const _: () = assert!(FIRST_STUB + OPERATIONS as u64 * STUB_SIZE <= STUB_BASE + TABLE_OFFSET);
const _: () = assert!(TABLE_OFFSET + OPERATIONS as u64 * 8 <= RETURN_OFFSET);
const _: () = assert!(PENDING_OFFSET + PENDING_LENGTH <= STUB_LENGTH);

/// The function of an operation. `None` if the number is not an operation.
pub fn function_of(operation: u64) -> Option<u16> {
    let operation = usize::try_from(operation).ok()?;
    (operation < OPERATIONS).then_some((operation % FUNCTIONS.len()) as u16)
}

/// Offset in the stub range of the table of operations' targets: one 64-bit address for each, with
/// [`UNRESOLVED`] or [`PASSED_BY`]. The range is writable from here on.
pub const TABLE_OFFSET: u64 = 0x8000;

/// Flag in the table: this operation was not called yet. The address is the library's resolver, which
/// finds the target and returns to the stub.
pub const UNRESOLVED: u64 = 1 << 63;

/// Flag in the table: the target is a layer between the program and its MPI library, whose own calls
/// are traced.
pub const PASSED_BY: u64 = 1 << 62;

/// Mask of the address in a word of the table.
pub const TARGET: u64 = PASSED_BY - 1;

/// Linear address of the word of the library's table with the target of `operation`. The number may be
/// any value from a guest: beyond the table it is an ordinary guest address.
pub const fn table_entry(operation: u64) -> u64 {
    (STUB_BASE + TABLE_OFFSET).wrapping_add(operation.wrapping_mul(8))
}

/// Distance in bytes between the resolvers of two operations.
pub const RESOLVER_SIZE: u64 = 16;

/// Offset in the stub range of the library's address that replaces return addresses: a jump to
/// [`RETURN_ADDRESS`] that has unwind information, or zero if there is none.
pub const RETURN_OFFSET: u64 = 0xb000;

/// Offset in the stub range of the library's address of the first operation's resolver. A resolver
/// finds the target, writes to each page of the table of replaced return addresses, and returns to the
/// stub; the others follow at distances of [`RESOLVER_SIZE`].
pub const RESOLVERS_OFFSET: u64 = RETURN_OFFSET + 8;

/// Offset in the stub range of the table of replaced return addresses: buckets of pairs of 64-bit
/// words, the stack pointer after the return (zero if the pair is free) and the return address. The
/// bucket of a pair is given by [`pending_bucket`].
pub const PENDING_OFFSET: u64 = 0xc000;

/// Number of buckets, as a power of two.
pub const PENDING_BUCKET_BITS: u32 = 6;

/// Bytes of a bucket, as a power of two: eight pairs.
pub const PENDING_BUCKET_SHIFT: u32 = 7;

/// Bytes of the table of replaced return addresses.
pub const PENDING_LENGTH: u64 = 1 << (PENDING_BUCKET_BITS + PENDING_BUCKET_SHIFT);

/// Shifts of a stack pointer for its bucket: the first skips bits that are equal in all frames, the
/// second selects bits that differ between threads' stacks.
pub const PENDING_SHIFTS: [u32; 2] = [4, 20];

/// The linear address of the bucket of a call that returns to stack pointer `stack`.
pub fn pending_bucket(stack: u64) -> u64 {
    let [within, between] = PENDING_SHIFTS;
    let bucket = (stack >> within ^ stack >> between) & ((1 << PENDING_BUCKET_BITS) - 1);
    STUB_BASE + PENDING_OFFSET + (bucket << PENDING_BUCKET_SHIFT)
}

/// Facts that the library reports through [`FACT_LEAF`]; the number in EBX.
pub mod fact {
    /// A process makes its first MPI call. RDI is its rank in MPI_COMM_WORLD according to its
    /// launcher's environment (all ones if unknown), RSI the implementation that it is linked to.
    pub const PROCESS: u32 = 1;
    /// The predefined objects of an Open MPI process: RDI is the address of an
    /// array of their addresses in the order of
    /// [`OPEN_MPI_OBJECTS`](crate::OPEN_MPI_OBJECTS), RSI their number.
    pub const OPEN_MPI_OBJECTS: u32 = 2;
    /// The environment of the process reported by [`PROCESS`]: RDI is the address of the array of
    /// pointers to its variables, which ends with a null pointer.
    pub const ENVIRONMENT: u32 = 3;
    /// Code range of that process's MPI library: RDI is its first address, RSI the one after its last.
    /// Calls from there are nested and not recorded.
    pub const LIBRARY: u32 = 4;
}

/// [`fact::PROCESS`]'s RSI for MPICH and its derivatives, whose handles are integers.
pub const IMPLEMENTATION_MPICH: u64 = 1;
/// [`fact::PROCESS`]'s RSI for Open MPI, whose handles are addresses of objects.
pub const IMPLEMENTATION_OPEN_MPI: u64 = 2;

/// [`fact::PROCESS`]'s RSI for the standard ABI of MPICH and its derivatives.
pub const IMPLEMENTATION_ABI_MPICH: u64 = 3;
/// [`fact::PROCESS`]'s RSI for the standard ABI of Open MPI.
pub const IMPLEMENTATION_ABI_OPEN_MPI: u64 = 4;
/// [`fact::PROCESS`]'s RSI for the standard ABI of another library.
pub const IMPLEMENTATION_ABI_UNKNOWN: u64 = 5;

/// Name of the standard ABI's shared libraries (`DT_SONAME`), up to the version.
pub const STANDARD_ABI_NAME: &str = "libmpi_abi.so";

/// An internal function that MPICH and its derivatives export.
pub const MPICH_MARK: &str = "MPIR_Err_create_code";

/// Open MPI's predefined objects that the host uses: the linker's name and, for datatypes, the size in
/// bytes.
pub static OPEN_MPI_OBJECTS: &[(&str, u32)] = &[
    ("ompi_mpi_comm_world", 0),
    ("ompi_mpi_comm_self", 0),
    ("ompi_mpi_comm_null", 0),
    ("ompi_request_null", 0),
    ("ompi_mpi_byte", 1),
    ("ompi_mpi_packed", 1),
    ("ompi_mpi_char", 1),
    ("ompi_mpi_signed_char", 1),
    ("ompi_mpi_unsigned_char", 1),
    ("ompi_mpi_short", 2),
    ("ompi_mpi_unsigned_short", 2),
    ("ompi_mpi_int", 4),
    ("ompi_mpi_unsigned", 4),
    ("ompi_mpi_long", 8),
    ("ompi_mpi_unsigned_long", 8),
    ("ompi_mpi_long_long_int", 8),
    ("ompi_mpi_unsigned_long_long", 8),
    ("ompi_mpi_float", 4),
    ("ompi_mpi_double", 8),
    ("ompi_mpi_long_double", 16),
    ("ompi_mpi_wchar", 4),
    ("ompi_mpi_int8_t", 1),
    ("ompi_mpi_uint8_t", 1),
    ("ompi_mpi_int16_t", 2),
    ("ompi_mpi_uint16_t", 2),
    ("ompi_mpi_int32_t", 4),
    ("ompi_mpi_uint32_t", 4),
    ("ompi_mpi_int64_t", 8),
    ("ompi_mpi_uint64_t", 8),
    ("ompi_mpi_aint", 8),
    ("ompi_mpi_offset", 8),
    ("ompi_mpi_count", 8),
    ("ompi_mpi_c_bool", 1),
    ("ompi_mpi_c_float_complex", 8),
    ("ompi_mpi_c_double_complex", 16),
    ("ompi_mpi_float_int", 8),
    ("ompi_mpi_double_int", 12),
    ("ompi_mpi_2int", 8),
    ("ompi_mpi_integer", 4),
    ("ompi_mpi_real", 4),
    ("ompi_mpi_dblprec", 8),
    ("ompi_mpi_cplex", 8),
    ("ompi_mpi_dblcplex", 16),
    ("ompi_mpi_logical", 4),
    ("ompi_mpi_character", 1),
    ("ompi_mpi_c_long_double_complex", 32),
    ("ompi_mpi_short_int", 6),
    ("ompi_mpi_long_int", 12),
    ("ompi_mpi_longdbl_int", 20),
    ("ompi_mpi_cxx_bool", 1),
    ("ompi_mpi_cxx_cplex", 8),
    ("ompi_mpi_cxx_dblcplex", 16),
    ("ompi_mpi_cxx_ldblcplex", 32),
    ("ompi_mpi_2integer", 8),
    ("ompi_mpi_2real", 8),
    ("ompi_mpi_2dblprec", 16),
    ("ompi_mpi_2cplex", 16),
    ("ompi_mpi_2dblcplex", 32),
    ("ompi_mpi_logical1", 1),
    ("ompi_mpi_logical2", 2),
    ("ompi_mpi_logical4", 4),
    ("ompi_mpi_logical8", 8),
    ("ompi_mpi_integer1", 1),
    ("ompi_mpi_integer2", 2),
    ("ompi_mpi_integer4", 4),
    ("ompi_mpi_integer8", 8),
    ("ompi_mpi_integer16", 16),
    ("ompi_mpi_real2", 2),
    ("ompi_mpi_real4", 4),
    ("ompi_mpi_real8", 8),
    ("ompi_mpi_real16", 16),
    ("ompi_mpi_complex8", 8),
    ("ompi_mpi_complex16", 16),
    ("ompi_mpi_complex32", 32),
    ("ompi_mpi_lb", 0),
    ("ompi_mpi_ub", 0),
    ("ompi_mpi_op_no_op", 0),
];
