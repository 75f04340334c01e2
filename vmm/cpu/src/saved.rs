//! A processor's whole state as values, from which any engine continues.
//!
//! Saved states are data from outside when they are loaded, and may hold anything: an engine checks
//! what it takes. Nodes save one for each processor, in snapshots and checkpoints.

use belljar_sim::CodecError;
use serde::{Deserialize, Serialize};

use crate::registers::{Registers, SystemRegisters};
use crate::{CpuError, Cycles};

/// A processor between two runs.
///
/// What all engines know by the architecture stands in fields of its own; what one keeps
/// besides that stands in [`engine`](Self::engine), and another leaves it alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuState {
    /// General registers, RIP and RFLAGS.
    pub registers: Registers,
    /// Segments, tables, control registers.
    pub system: SystemRegisters,
    /// Which state XSAVE keeps.
    pub xcr0: u64,
    /// DR0 to DR7.
    pub debug: [u64; 8],
    /// CR8.
    pub task_priority: u64,
    /// Model-specific registers, by number, those left out that stand elsewhere here.
    pub msrs: Vec<(u32, u64)>,
    /// ZMM0 to ZMM31, 64 bytes each; what the processor does not have is zero.
    pub vectors: Vec<u8>,
    /// K0 to K7.
    pub masks: [u64; 8],
    /// MXCSR.
    pub mxcsr: u32,
    /// The x87 as FXSAVE has it up to byte 160.
    pub x87: Vec<u8>,
    /// What RDTSC shows beyond the virtual clock.
    pub tsc_offset: u64,
    /// The virtual clock.
    pub cycles: Cycles,
    /// Guest instructions retired.
    pub retired: u64,
    /// It waits for an interrupt.
    pub halted: bool,
    /// Interrupts wait for one more instruction.
    pub shadow: bool,
    /// Traps wait for one more instruction.
    pub holds_traps: bool,
    /// A non-maskable interrupt was taken, and no IRET came since.
    pub in_nmi: bool,
    /// The name of the engine that saved it.
    pub engine_name: String,
    /// What that engine keeps besides all this.
    pub engine: Vec<u8>,
}

impl From<CodecError> for CpuError {
    fn from(error: CodecError) -> Self {
        Self::State(error.to_string())
    }
}
