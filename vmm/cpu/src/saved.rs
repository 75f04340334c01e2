//! A processor's whole state as values, which every engine can load.
//!
//! Saved states are untrusted input, and may contain arbitrary values: an engine validates them.
//! Nodes save one for each processor, in snapshots and checkpoints.

use belljar_sim::CodecError;
use serde::{Deserialize, Serialize};

use crate::registers::{Registers, SystemRegisters};
use crate::{CpuError, Cycles};

/// The state of a processor between two runs.
///
/// Architectural state has fields of its own; an engine's private state is in
/// [`engine`](Self::engine), which other engines ignore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuState {
    /// General registers, RIP and RFLAGS.
    pub registers: Registers,
    /// Segments, tables, control registers.
    pub system: SystemRegisters,
    /// The state components enabled for XSAVE.
    pub xcr0: u64,
    /// DR0 to DR7.
    pub debug: [u64; 8],
    /// CR8.
    pub task_priority: u64,
    /// Model-specific registers, by number, except for those in other fields.
    pub msrs: Vec<(u32, u64)>,
    /// ZMM0 to ZMM31, 64 bytes each; parts that the processor lacks are zero.
    pub vectors: Vec<u8>,
    /// K0 to K7.
    pub masks: [u64; 8],
    /// MXCSR.
    pub mxcsr: u32,
    /// The x87 state in FXSAVE's format, up to byte 160.
    pub x87: Vec<u8>,
    /// The difference of RDTSC and the virtual clock.
    pub tsc_offset: u64,
    /// The virtual clock.
    pub cycles: Cycles,
    /// Guest instructions retired.
    pub retired: u64,
    /// True if it waits for an interrupt.
    pub halted: bool,
    /// True if interrupts are blocked for one more instruction.
    pub shadow: bool,
    /// True if traps are blocked for one more instruction.
    pub holds_traps: bool,
    /// True if a non-maskable interrupt was delivered, and no IRET came since.
    pub in_nmi: bool,
    /// The name of the engine that saved it.
    pub engine_name: String,
    /// The private state of that engine.
    pub engine: Vec<u8>,
}

impl From<CodecError> for CpuError {
    fn from(error: CodecError) -> Self {
        Self::State(error.to_string())
    }
}
