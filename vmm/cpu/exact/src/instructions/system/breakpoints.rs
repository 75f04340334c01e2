//! Breakpoints in DR0 to DR3 (Intel SDM vol. 3, 18.2.4 and 18.3.1). While one is enabled,
//! instructions run one by one and are checked before; otherwise breakpoints cost nothing. A
//! repeated string instruction is one access from its first element to its last, and reported at
//! its end. Accesses of gathers, scatters and of instructions that push several words are not
//! detected, nor are breakpoints on ports.

use belljar_translate::architecture::{flag, vector};
use belljar_translate::guest::analyse::{InstructionClass, classify};
use iced_x86::{Instruction, Register};

use super::debug::STATUS_BREAKPOINTS;
use crate::memory::access::DataAccess;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// DR7: the enable bits of all four breakpoints.
const ENABLED: u64 = 0xff;
/// The kind of a breakpoint, in DR7's R/W fields.
const ON_CODE: u64 = 0;
const ON_WRITES: u64 = 1;
const ON_ACCESSES: u64 = 3;

/// An enabled breakpoint.
struct Breakpoint {
    /// Its bit in DR6.
    bit: u64,
    kind: u64,
    start: u64,
    bytes: u64,
}

impl Breakpoint {
    fn meets(&self, access: &DataAccess) -> bool {
        let kind = self.kind == ON_ACCESSES || (self.kind == ON_WRITES && access.write);
        let behind = access.linear.wrapping_sub(self.start);
        let before = self.start.wrapping_sub(access.linear);
        kind && (behind < self.bytes || before < access.bytes as u64)
    }
}

impl ExactVcpu {
    /// True if any breakpoint is enabled.
    pub(crate) fn has_breakpoints(&self) -> bool {
        self.state.debug[7] & ENABLED != 0
    }

    fn breakpoints(&self) -> impl Iterator<Item = Breakpoint> {
        let debug = self.state.debug;
        let enabled = (0..4).filter(move |number| debug[7] >> (number * 2) & 3 != 0);
        enabled.map(move |number| {
            let field = debug[7] >> (16 + number * 4) & 15;
            let bytes = [1, 2, 8, 4][(field >> 2) as usize];
            Breakpoint {
                bit: 1 << number,
                kind: field & 3,
                start: debug[number] & !(bytes - 1),
                bytes,
            }
        })
    }

    /// The #DB of a breakpoint on the instruction at `state.rip`, which is then recorded in DR6.
    pub(crate) fn code_breakpoint(&mut self) -> Option<Fault> {
        let linear = self.state.code_address(self.state.rip);
        let hits = self
            .breakpoints()
            .filter(|one| one.kind == ON_CODE && one.start == linear)
            .fold(0, |bits, one| bits | one.bit);
        if hits == 0 {
            return None;
        }
        self.state.debug[6] = self.state.debug[6] & !STATUS_BREAKPOINTS | hits;
        Some(Fault::plain(vector::DEBUG))
    }

    /// The bits of DR6 for breakpoints on the data of the instruction at `state.rip`, after its
    /// execution.
    pub(crate) fn data_breakpoints(&mut self) -> u64 {
        let (instruction, features) = self.present_instruction();
        let class = classify(&instruction, &features);
        if matches!(
            class,
            InstructionClass::Fault(_) | InstructionClass::Nop | InstructionClass::Lea
        ) || instruction.is_vsib()
        {
            return 0;
        }
        let mut accesses = self.accesses(&instruction, instruction.memory_size().size());
        self.stretch_over_repetitions(&instruction, &mut accesses);
        let met = self
            .breakpoints()
            .filter(|one| accesses.iter().any(|access| one.meets(access)));
        met.fold(0, |bits, one| bits | one.bit)
    }

    fn stretch_over_repetitions(&self, instruction: &Instruction, accesses: &mut [DataAccess]) {
        let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        if !repeats || !instruction.is_string_instruction() {
            return;
        }
        let more = self.register(Register::RCX).saturating_sub(1);
        for access in accesses {
            let further = more.saturating_mul(access.bytes as u64);
            if self.state.flags & flag::DF != 0 {
                access.linear = access.linear.wrapping_sub(further);
            }
            access.bytes = access.bytes.saturating_add(further as usize);
        }
    }
}
