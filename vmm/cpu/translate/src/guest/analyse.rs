//! Classifies instructions for the translator.
//!
//! `classify` gives each decoded instruction its `InstructionClass`: the emitter makes host code for it, the
//! dispatcher executes it in Rust, or it raises an exception. The class follows only from the
//! instruction and the enabled features. `decode` classifies every instruction; the emitter uses
//! the class.

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpAccess, OpKind, Register};

use crate::architecture::vector;
use crate::guest::analyse::helper::is_defined;
use crate::guest::analyse::operands::operand_access;
use crate::guest::features::{Features, MMX, X87};
use crate::guest::size::CodeSize;
use helper::helper_of;

/// Instructions that are executed in Rust, and their helpers.
pub mod helper;
/// 16- and 32-bit code: classes, and equivalent encodings in 64-bit code.
pub(crate) mod legacy;
/// Vector accesses under a mask.
pub mod masked;
/// Accesses of an instruction to its operands.
pub mod operands;

/// The way to translate an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionClass {
    /// Registers only: executed unchanged.
    Plain,
    /// One explicit memory operand, which is translated; otherwise unchanged.
    Memory {
        /// Bytes accessed.
        size: u16,
        /// True if the operand is written.
        write: bool,
    },
    /// Address arithmetic without access.
    Lea,
    /// No operation.
    Nop,
    /// 64-bit push of a register, an immediate or memory.
    Push,
    /// 64-bit pop to a register.
    Pop,
    /// 64-bit LEAVE.
    Leave,
    /// Near jump to a constant.
    Jump,
    /// Conditional jump, and the LOOP and JRCXZ family.
    JumpIf,
    /// Near call to a constant.
    Call,
    /// Near return.
    Ret,
    /// Near jump through a register or memory.
    JumpIndirect,
    /// Near call through a register or memory.
    CallIndirect,
    /// CLI.
    ClearInterrupts,
    /// STI.
    SetInterrupts,
    /// 64-bit PUSHF.
    PushFlags,
    /// SWAPGS.
    SwapGs,
    /// RDTSC and RDTSCP.
    ReadTsc,
    /// REP STOS or REP MOVS by 64-bit addresses, neither through FS nor GS.
    Repeat {
        /// Bytes of an element.
        size: u16,
        /// True for MOVS, false for STOS.
        moves: bool,
    },
    /// CLD.
    ClearDirection,
    /// BT, BTS, BTR or BTC on memory with a bit offset in a register, by 64-bit addresses.
    BitString {
        /// Bytes of the register.
        size: u16,
        /// True if the bit is written.
        write: bool,
    },
    /// 64-bit SYSCALL.
    SystemCall,
    /// 64-bit SYSRET.
    SystemReturn,
    /// Executed in Rust.
    Helper,
    /// Raises this exception: #UD, #NM or #GP(0).
    Fault(u8),
}

impl InstructionClass {
    /// True if a block ends after an instruction of this class.
    pub fn ends_block(self) -> bool {
        matches!(
            self,
            Self::Jump
                | Self::JumpIf
                | Self::Call
                | Self::Ret
                | Self::JumpIndirect
                | Self::CallIndirect
                | Self::SwapGs
                | Self::ReadTsc
                | Self::SystemCall
                | Self::SystemReturn
                | Self::Helper
                | Self::Fault(_)
        )
    }

    /// True if translated code executes it.
    pub(crate) fn is_native(self) -> bool {
        !matches!(self, Self::Helper | Self::Fault(_))
    }

    /// True if it is assumed to read all flags and to replace none.
    pub(crate) fn is_opaque(self) -> bool {
        matches!(
            self,
            Self::SystemCall
                | Self::SystemReturn
                | Self::Repeat { .. }
                | Self::ClearDirection
                | Self::BitString { .. }
                | Self::Helper
                | Self::Fault(_)
        )
    }
}

/// True if an operand is an MMX register.
pub fn names_mmx(instruction: &Instruction) -> bool {
    let mut operands = 0..instruction.op_count();
    operands.any(|at| {
        instruction.op_kind(at) == OpKind::Register && instruction.op_register(at).is_mm()
    })
}

/// True if an instruction may change the x87 state, including MMX registers; reading MMX data from
/// memory changes it, too.
pub fn touches_x87(instruction: &Instruction) -> bool {
    let features = instruction.cpuid_features();
    let converts = matches!(
        instruction.mnemonic(),
        Mnemonic::Cvtpi2ps | Mnemonic::Cvtpi2pd
    );
    X87.has_any(features) || MMX.has_any(features) || names_mmx(instruction) || converts
}

/// The class of `instruction`.
pub fn classify(instruction: &Instruction, features: &Features) -> InstructionClass {
    if instruction.is_invalid() || !is_enabled(instruction, features) || misuses_lock(instruction) {
        return if is_harmless_hint(instruction) {
            InstructionClass::Nop
        } else {
            InstructionClass::Fault(vector::INVALID_OPCODE)
        };
    }
    if lacks_fpu(instruction, features) {
        return InstructionClass::Fault(vector::NO_FPU);
    }
    if features.nulls.are_used_by(instruction) {
        return InstructionClass::Fault(vector::PROTECTION);
    }
    if features.size != CodeSize::Long
        && let Some(class) = legacy::classify(instruction, features.size)
    {
        return class;
    }
    if let Some(class) = classify_system(instruction, features) {
        return class;
    }
    if helper_of(instruction).is_some() && !(features.host_results && is_defined(instruction)) {
        return InstructionClass::Helper;
    }
    if let Some(class) = classify_flow(instruction) {
        return class;
    }
    match instruction.mnemonic() {
        Mnemonic::Nop | Mnemonic::Pause => InstructionClass::Nop,
        Mnemonic::Lea => InstructionClass::Lea,
        Mnemonic::Push => InstructionClass::Push,
        Mnemonic::Pop => InstructionClass::Pop,
        Mnemonic::Leave => InstructionClass::Leave,
        _ => classify_operands(instruction),
    }
}

/// True if the processor has the instruction and the system has enabled it.
fn is_enabled(instruction: &Instruction, features: &Features) -> bool {
    let needed = instruction.cpuid_features();
    match instruction.mnemonic() {
        Mnemonic::Lahf | Mnemonic::Sahf => features.lahf || features.size != CodeSize::Long,
        mnemonic if needs_no_state(mnemonic) => features.offered.has_all(needed),
        _ => features.enabled.has_all(needed),
    }
}

/// Encodings that older processors execute as NOP: control-flow enforcement markers and prefetches.
fn is_harmless_hint(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Endbr64
            | Mnemonic::Endbr32
            | Mnemonic::Rdsspd
            | Mnemonic::Rdsspq
            | Mnemonic::Prefetch
            | Mnemonic::Prefetchw
            | Mnemonic::Prefetchwt1
            | Mnemonic::Cldemote
    )
}

/// True for LOCK on an instruction other than a read-modify-write of memory, which is #UD.
fn misuses_lock(instruction: &Instruction) -> bool {
    instruction.has_lock_prefix() && instruction.op0_kind() != OpKind::Memory
}

/// Instructions that came with a vector extension or with XSAVE, but do not use the state that it
/// saves.
fn needs_no_state(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Sfence
            | Mnemonic::Lfence
            | Mnemonic::Mfence
            | Mnemonic::Movnti
            | Mnemonic::Pause
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Crc32
            | Mnemonic::Popcnt
            | Mnemonic::Clflush
    )
}

/// True if the instruction raises #NM under CR0.TS or CR0.EM.
fn lacks_fpu(instruction: &Instruction, features: &Features) -> bool {
    if features.fpu && features.x87 {
        return false;
    }
    let needed = instruction.cpuid_features();
    let mnemonic = instruction.mnemonic();
    let switched = Features::is_switched(needed)
        && !needs_no_state(mnemonic)
        && !matches!(mnemonic, Mnemonic::Xgetbv | Mnemonic::Xsetbv);
    let waits_only = mnemonic == Mnemonic::Wait;
    (!features.fpu && switched) || (!features.x87 && !waits_only && X87.has_any(needed))
}

/// Instructions that 64-bit kernels execute frequently.
fn classify_system(instruction: &Instruction, features: &Features) -> Option<InstructionClass> {
    if features.size != CodeSize::Long {
        return None;
    }
    match instruction.code() {
        Code::Cli => Some(InstructionClass::ClearInterrupts),
        Code::Sti => Some(InstructionClass::SetInterrupts),
        Code::Pushfq => Some(InstructionClass::PushFlags),
        Code::Swapgs => Some(InstructionClass::SwapGs),
        Code::Rdtsc | Code::Rdtscp => Some(InstructionClass::ReadTsc),
        Code::Syscall => Some(InstructionClass::SystemCall),
        Code::Sysretq => Some(InstructionClass::SystemReturn),
        Code::Cld => Some(InstructionClass::ClearDirection),
        _ => classify_bit_string(instruction).or_else(|| classify_repeat(instruction)),
    }
}

fn classify_bit_string(instruction: &Instruction) -> Option<InstructionClass> {
    let write = match instruction.mnemonic() {
        Mnemonic::Bt => false,
        Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc => true,
        _ => return None,
    };
    let in_memory = instruction.op0_kind() == OpKind::Memory;
    (in_memory && instruction.op1_kind() == OpKind::Register).then(|| InstructionClass::BitString {
        size: instruction.op1_register().size() as u16,
        write,
    })
}

fn classify_repeat(instruction: &Instruction) -> Option<InstructionClass> {
    let (size, moves) = match instruction.code() {
        Code::Stosb_m8_AL => (1, false),
        Code::Stosw_m16_AX => (2, false),
        Code::Stosd_m32_EAX => (4, false),
        Code::Stosq_m64_RAX => (8, false),
        Code::Movsb_m8_m8 => (1, true),
        Code::Movsw_m16_m16 => (2, true),
        Code::Movsd_m32_m32 => (4, true),
        Code::Movsq_m64_m64 => (8, true),
        _ => return None,
    };
    let based = matches!(instruction.segment_prefix(), Register::FS | Register::GS);
    let plain = instruction.has_rep_prefix()
        && instruction.op0_kind() == OpKind::MemoryESRDI
        && !(moves && based);
    plain.then_some(InstructionClass::Repeat { size, moves })
}

fn classify_flow(instruction: &Instruction) -> Option<InstructionClass> {
    match instruction.flow_control() {
        FlowControl::Next => None,
        FlowControl::UnconditionalBranch if is_near64(instruction) => Some(InstructionClass::Jump),
        FlowControl::ConditionalBranch if is_near64(instruction) => Some(InstructionClass::JumpIf),
        FlowControl::Call if is_near64(instruction) => Some(InstructionClass::Call),
        FlowControl::IndirectBranch if is_indirect64(instruction) => {
            Some(InstructionClass::JumpIndirect)
        }
        FlowControl::IndirectCall if is_indirect64(instruction) => {
            Some(InstructionClass::CallIndirect)
        }
        FlowControl::Return if matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16) => {
            Some(InstructionClass::Ret)
        }
        _ => Some(InstructionClass::Fault(vector::INVALID_OPCODE)),
    }
}

fn is_near64(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::NearBranch64
}

fn is_indirect64(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Jmp_rm64 | Code::Call_rm64)
}

fn classify_operands(instruction: &Instruction) -> InstructionClass {
    let Some(index) = instruction
        .op_kinds()
        .position(|kind| kind == OpKind::Memory)
    else {
        return if instruction.op_kinds().any(is_implicit_memory) {
            // An unknown instruction must not run: its addresses are the guest's.
            InstructionClass::Fault(vector::INVALID_OPCODE)
        } else {
            InstructionClass::Plain
        };
    };
    let write = match operand_access(instruction, index as u32) {
        OpAccess::NoMemAccess | OpAccess::None => return InstructionClass::Nop,
        OpAccess::Read | OpAccess::CondRead => false,
        _ => true,
    };
    let size = instruction.memory_size().size();
    if size == 0 || size > 64 {
        return InstructionClass::Helper;
    }
    InstructionClass::Memory {
        size: size as u16,
        write,
    }
}

/// True if an operand is memory at an implicit address.
fn is_implicit_memory(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::MemorySegSI
            | OpKind::MemorySegESI
            | OpKind::MemorySegRSI
            | OpKind::MemorySegDI
            | OpKind::MemorySegEDI
            | OpKind::MemorySegRDI
            | OpKind::MemoryESDI
            | OpKind::MemoryESEDI
            | OpKind::MemoryESRDI
    )
}
