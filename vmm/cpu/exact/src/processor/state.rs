//! Processor state that only host code accesses.
//!
//! It has RIP, segments, control and model-specific registers, and conditions for the next instruction
//! only; general registers, arithmetic flags and IF are in the [context](belljar_translate::context).
//! `dispatch`, `system` and `exception` change it between visits to translated code.

use belljar_cpu::{DescriptorTable, Segment, SegmentRegister, SystemRegisters};
use belljar_translate::architecture::{cr0, flag, vector, xcr0};

/// Widths of code, stack and addresses.
mod width;

/// Model-specific registers that only hold a value, and ones whose value other instructions use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Msrs {
    pub star: u64,
    pub lstar: u64,
    pub cstar: u64,
    pub sfmask: u64,
    pub tsc_aux: u64,
    pub pat: u64,
    pub sysenter: [u64; 3],
    pub misc_enable: u64,
    pub mtrr_default: u64,
    pub mtrr_fixed: [u64; 11],
    pub mtrr_variable: [u64; 16],
}

/// The kind of event by which an instruction entered a handler itself, which decides the traps after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Entered {
    /// No such event.
    #[default]
    Not,
    /// INT n, INT3, INTO: TF was cleared before it ended.
    Interrupt,
    /// INT1: it is the pending debug exception itself.
    Debug,
    /// SYSCALL or SYSRET: the new value of TF decides, not the old one.
    SystemCall,
}

/// The processor's state outside the context.
#[derive(Clone, Debug)]
pub(crate) struct ArchitecturalState {
    pub rip: u64,
    /// RFLAGS without arithmetic flags and IF.
    pub flags: u64,
    pub system: SystemRegisters,
    /// The state components enabled for XSAVE, and so the vector registers.
    pub xcr0: u64,
    pub debug: [u64; 8],
    pub cr8: u64,
    pub msrs: Msrs,
    /// Interrupts are blocked for one more instruction (after STI or MOV SS).
    pub shadow: bool,
    pub halted: bool,
    /// True if the last instruction, a load of SS, blocks single-step traps.
    pub holds_traps: bool,
    /// Breakpoints hit by such a load, reported after the next instruction.
    pub held_hits: u64,
    /// The way the last instruction entered a handler.
    pub entered: Entered,
    /// True if the guest disabled the local APIC, which CPUID then hides; and its value before the last
    /// write, which may still be refused.
    pub apic_off: bool,
    pub apic_was_off: bool,
    /// True if a non-maskable interrupt was delivered without an IRET since: further ones are blocked.
    pub in_nmi: bool,
}

impl ArchitecturalState {
    /// The visible state after reset, before it is set.
    pub(crate) fn new() -> Self {
        Self {
            rip: 0,
            flags: flag::FIXED,
            system: SystemRegisters::default(),
            xcr0: xcr0::X87,
            debug: [0, 0, 0, 0, 0, 0, 0xffff_0ff0, 0x400],
            cr8: 0,
            msrs: Msrs {
                pat: 0x0007_0406_0007_0406,
                misc_enable: 1,
                ..Msrs::default()
            },
            shadow: false,
            halted: false,
            holds_traps: false,
            held_hits: 0,
            entered: Entered::Not,
            apic_off: false,
            apic_was_off: false,
            in_nmi: false,
        }
    }

    /// Current privilege level: in CS's selector, and 0 in real mode.
    pub(crate) fn privilege(&self) -> u8 {
        if !self.is_protected() {
            return 0;
        }
        (self.segment(SegmentRegister::Cs).selector & 3) as u8
    }

    pub(crate) fn is_user(&self) -> bool {
        self.privilege() == 3
    }

    pub(crate) fn segment(&self, register: SegmentRegister) -> &Segment {
        &self.system.segments[register as usize]
    }

    pub(crate) fn segment_mut(&mut self, register: SegmentRegister) -> &mut Segment {
        &mut self.system.segments[register as usize]
    }

    /// True if CR0.TS permits x87 and vector instructions.
    pub(crate) fn has_fpu(&self) -> bool {
        self.system.cr0 & cr0::TS == 0
    }

    pub(crate) fn idt(&self) -> DescriptorTable {
        self.system.idt
    }
}

/// An exception to be delivered to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub vector: u8,
    pub error: Option<u32>,
    /// The address for CR2, for a page fault.
    pub address: Option<u64>,
}

impl Fault {
    /// #GP with an error code.
    pub(crate) const fn protection(error: u32) -> Self {
        Self {
            vector: vector::PROTECTION,
            error: Some(error),
            address: None,
        }
    }

    /// An exception without error code.
    pub(crate) const fn plain(vector: u8) -> Self {
        Self {
            vector,
            error: None,
            address: None,
        }
    }

    /// #AC.
    pub(crate) const fn alignment() -> Self {
        Self {
            vector: vector::ALIGNMENT,
            error: Some(0),
            address: None,
        }
    }

    /// #UD.
    pub(crate) const fn invalid_opcode() -> Self {
        Self::plain(vector::INVALID_OPCODE)
    }

    /// #PF.
    pub(crate) const fn page(address: u64, error: u32) -> Self {
        Self {
            vector: vector::PAGE,
            error: Some(error),
            address: Some(address),
        }
    }

    /// True if the pushed RFLAGS have RF set: all faults, but not traps.
    pub(crate) fn is_restartable(self) -> bool {
        self.vector != vector::DEBUG && self.vector != vector::DOUBLE_FAULT
    }
}
