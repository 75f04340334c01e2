//! The convention shared by the preloaded library in the guest and its host.
//!
//! All stubs of the library live in one text range at a fixed linear address.
//! A wrapped MPI function's entry puts its operation number into R11 and falls
//! into the one magic `CPUID` at [`MAGIC_ADDRESS`]; the host looks at the
//! argument registers and the stack, puts the address to go on with into R11,
//! and lets the guest run on behind the instruction, where it jumps to R11.
//! No other register and no flag changes. To see the call return, the host
//! replaces the return address on the stack by [`RETURN_ADDRESS`], whose stub
//! goes through the same `CPUID` with [`OP_RETURN`].
#![no_std]

/// Start of the text range that holds the stubs: chosen where neither the
/// kernel's mmap, nor position-independent programs, nor stacks are ever placed.
pub const STUB_BASE: u64 = 0x4a42_0000_0000;

/// Bytes of the stub range.
pub const STUB_LENGTH: u64 = 0x1_0000;

/// The linear address of the magic `CPUID`.
pub const MAGIC_ADDRESS: u64 = STUB_BASE;

/// The linear address of the stub that a traced call returns to.
pub const RETURN_ADDRESS: u64 = STUB_BASE + 0x10;

/// Address of the first function stub; function `i` enters at
/// `FIRST_STUB + i * STUB_SIZE`.
pub const FIRST_STUB: u64 = STUB_BASE + 0x40;

/// Bytes of one function's stub.
pub const STUB_SIZE: u64 = 16;

/// R11 at the magic instruction when a traced call returns. Entries carry the
/// index of the function in the table of operations instead.
pub const OP_RETURN: u64 = 0xffff;

/// CPUID leaf that tells a guest that it runs under Belljar: EAX is
/// [`ABI_VERSION`], EBX, ECX and EDX spell [`SIGNATURE`].
pub const DETECT_LEAF: u32 = 0x4000_0100;

/// What the detection leaf spells, four bytes each in EBX, ECX, EDX.
pub const SIGNATURE: [u8; 12] = *b"BelljarGlass";

/// Version of this convention.
pub const ABI_VERSION: u32 = 1;

/// CPUID leaf by which the library hands the host a fact about its process
/// (EBX is the fact's number, RDI and RSI its values). The `exact` engine traps it
/// wherever it stands.
pub const FACT_LEAF: u32 = 0x4a42_0001;
