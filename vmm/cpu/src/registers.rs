//! Architectural registers as plain values.
//!
//! They contain only architectural state, so a state can move from one engine to another. The boot
//! code fills them in; engines read and write them through `Vcpu`.

use serde::{Deserialize, Serialize};

/// General registers in the encoding's order (RAX, RCX, RDX, RBX, RSP, RBP, RSI,
/// RDI, R8 to R15), RIP and RFLAGS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registers {
    /// General registers, indexed by their number in the instruction encoding.
    pub gpr: [u64; 16],
    /// Instruction pointer.
    pub rip: u64,
    /// Flags; bit 1 is always set.
    pub rflags: u64,
}

impl Registers {
    /// Index of RAX in [`gpr`](Self::gpr).
    pub const RAX: usize = 0;
    /// Index of RCX.
    pub const RCX: usize = 1;
    /// Index of RDX.
    pub const RDX: usize = 2;
    /// Index of RBX.
    pub const RBX: usize = 3;
    /// Index of RSP.
    pub const RSP: usize = 4;
    /// Index of RBP.
    pub const RBP: usize = 5;
    /// Index of RSI.
    pub const RSI: usize = 6;
    /// Index of RDI.
    pub const RDI: usize = 7;
    /// Index of R8; R9 to R15 follow.
    pub const R8: usize = 8;
    /// Index of R9.
    pub const R9: usize = 9;
    /// Index of R10.
    pub const R10: usize = 10;
    /// Index of R11.
    pub const R11: usize = 11;
}

/// A segment register with its hidden part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The visible selector.
    pub selector: u16,
    /// Linear base address.
    pub base: u64,
    /// Limit in bytes, inclusive.
    pub limit: u32,
    /// Descriptor bits 40 to 55: type, S, DPL, P, then (from bit 12) AVL, L, D/B, G.
    pub attributes: u16,
}

/// The segment registers, in the encoding's order, then the two system segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentRegister {
    /// Extra segment.
    Es = 0,
    /// Code segment.
    Cs = 1,
    /// Stack segment.
    Ss = 2,
    /// Data segment.
    Ds = 3,
    /// Thread segment.
    Fs = 4,
    /// Kernel or thread segment.
    Gs = 5,
    /// Task register.
    Tr = 6,
    /// Local descriptor table.
    Ldt = 7,
}

/// GDTR or IDTR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptorTable {
    /// Linear base address.
    pub base: u64,
    /// Limit in bytes, inclusive.
    pub limit: u16,
}

/// The system state of a processor: segments, tables, control registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemRegisters {
    /// Segments, indexed by [`SegmentRegister`].
    pub segments: [Segment; 8],
    /// Global descriptor table.
    pub gdt: DescriptorTable,
    /// Interrupt descriptor table.
    pub idt: DescriptorTable,
    /// CR0.
    pub cr0: u64,
    /// CR2, the last page-fault address.
    pub cr2: u64,
    /// CR3, the root of the page tables.
    pub cr3: u64,
    /// CR4.
    pub cr4: u64,
    /// EFER.
    pub efer: u64,
}

/// A segment in real mode with this selector and type.
const fn real_mode(selector: u16, base: u64, attributes: u16) -> Segment {
    Segment {
        selector,
        base,
        limit: 0xffff,
        attributes,
    }
}

impl SystemRegisters {
    /// The state after a reset or an INIT (Intel SDM volume 3, "Processor State After
    /// Reset"): real mode, at the reset vector below 4 GiB.
    pub fn initial() -> Self {
        const PRESENT_DATA: u16 = 0x93;
        const PRESENT_CODE: u16 = 0x9b;
        const LDT: u16 = 0x82;
        const BUSY_TASK: u16 = 0x8b;
        let mut segments = [real_mode(0, 0, PRESENT_DATA); 8];
        segments[SegmentRegister::Cs as usize] = real_mode(0xf000, 0xffff_0000, PRESENT_CODE);
        segments[SegmentRegister::Tr as usize] = real_mode(0, 0, BUSY_TASK);
        segments[SegmentRegister::Ldt as usize] = real_mode(0, 0, LDT);
        let table = DescriptorTable {
            base: 0,
            limit: 0xffff,
        };
        Self {
            segments,
            gdt: table,
            idt: table,
            // Caching disabled, extension type.
            cr0: 0x6000_0010,
            ..Self::default()
        }
    }
}

impl Registers {
    /// The state after a reset or an INIT of a processor with this signature (EAX of CPUID leaf 1),
    /// which EDX then contains.
    pub fn initial(signature: u32) -> Self {
        let mut registers = Self {
            rip: 0xfff0,
            rflags: 2,
            ..Self::default()
        };
        registers.gpr[Self::RDX] = signature.into();
        registers
    }
}
