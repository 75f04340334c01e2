//! What an instruction needs from the translator.

use iced_x86::{
    Code, CpuidFeature, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

use crate::state::vector;
use crate::system::handler;

/// What of the guest's processor is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    /// x87, MMX and SSE run; otherwise they raise #NM (CR0.TS or CR0.EM set).
    pub fpu: bool,
}

/// How an instruction is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Registers only: executed as it stands.
    Plain,
    /// One explicit memory operand, which is translated; the rest as it stands.
    Memory {
        /// Bytes accessed.
        size: u16,
        /// Whether the operand is written.
        write: bool,
    },
    /// Address arithmetic without access.
    Lea,
    /// Nothing to do.
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
    /// Carried out in Rust.
    Helper,
    /// Raises this exception: #UD or #NM.
    Fault(u8),
}

impl Class {
    /// Whether a block ends behind an instruction of this class.
    pub(crate) fn ends_block(self) -> bool {
        matches!(
            self,
            Self::Jump
                | Self::JumpIf
                | Self::Call
                | Self::Ret
                | Self::JumpIndirect
                | Self::CallIndirect
                | Self::Helper
                | Self::Fault(_)
        )
    }
}

/// Decides how `instruction` is translated.
pub(crate) fn classify(instruction: &Instruction, features: Features) -> Class {
    if instruction.is_invalid() || !is_offered(instruction) || misuses_lock(instruction) {
        return if is_harmless_hint(instruction) {
            Class::Nop
        } else {
            Class::Fault(vector::INVALID_OPCODE)
        };
    }
    if !features.fpu && touches_fpu(instruction) {
        return Class::Fault(vector::NO_FPU);
    }
    if handler(instruction).is_some() {
        return Class::Helper;
    }
    if let Some(class) = classify_flow(instruction) {
        return class;
    }
    match instruction.mnemonic() {
        Mnemonic::Nop | Mnemonic::Pause => Class::Nop,
        Mnemonic::Lea => Class::Lea,
        Mnemonic::Push => Class::Push,
        Mnemonic::Pop => Class::Pop,
        Mnemonic::Leave => Class::Leave,
        _ => classify_operands(instruction),
    }
}

/// Instructions whose processor support the guest's CPUID promises.
fn is_offered(instruction: &Instruction) -> bool {
    instruction.cpuid_features().iter().all(|feature| {
        matches!(
            feature,
            CpuidFeature::INTEL8086
                | CpuidFeature::INTEL186
                | CpuidFeature::INTEL286
                | CpuidFeature::INTEL386
                | CpuidFeature::INTEL486
                | CpuidFeature::X64
                | CpuidFeature::CPUID
                | CpuidFeature::CMOV
                | CpuidFeature::CX8
                | CpuidFeature::CMPXCHG16B
                | CpuidFeature::CLFSH
                | CpuidFeature::FPU
                | CpuidFeature::FPU287
                | CpuidFeature::FPU387
                | CpuidFeature::FXSR
                | CpuidFeature::MMX
                | CpuidFeature::MSR
                | CpuidFeature::MULTIBYTENOP
                | CpuidFeature::PAUSE
                | CpuidFeature::POPCNT
                | CpuidFeature::RDPMC
                | CpuidFeature::RDRAND
                | CpuidFeature::RDSEED
                | CpuidFeature::RDTSCP
                | CpuidFeature::SYSCALL
                | CpuidFeature::SSE
                | CpuidFeature::SSE2
                | CpuidFeature::SSE3
                | CpuidFeature::SSSE3
                | CpuidFeature::SSE4_1
                | CpuidFeature::SSE4_2
                | CpuidFeature::TSC
        )
    })
}

/// Encodings that older processors execute as NOP: control-flow enforcement marks
/// and prefetches.
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
            | Mnemonic::Wbnoinvd
    )
}

/// LOCK on anything but a read-modify-write of memory is #UD.
fn misuses_lock(instruction: &Instruction) -> bool {
    instruction.has_lock_prefix() && instruction.op0_kind() != OpKind::Memory
}

fn touches_fpu(instruction: &Instruction) -> bool {
    let stores_only = matches!(
        instruction.mnemonic(),
        Mnemonic::Sfence | Mnemonic::Lfence | Mnemonic::Mfence | Mnemonic::Movnti | Mnemonic::Pause
    ) || matches!(
        instruction.mnemonic(),
        Mnemonic::Prefetchnta
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Crc32
            | Mnemonic::Popcnt
            | Mnemonic::Clflush
    );
    !stores_only
        && instruction.cpuid_features().iter().any(|feature| {
            matches!(
                feature,
                CpuidFeature::FPU
                    | CpuidFeature::FPU287
                    | CpuidFeature::FPU387
                    | CpuidFeature::FXSR
                    | CpuidFeature::MMX
                    | CpuidFeature::SSE
                    | CpuidFeature::SSE2
                    | CpuidFeature::SSE3
                    | CpuidFeature::SSSE3
                    | CpuidFeature::SSE4_1
                    | CpuidFeature::SSE4_2
            )
        })
}

fn classify_flow(instruction: &Instruction) -> Option<Class> {
    match instruction.flow_control() {
        FlowControl::Next => None,
        FlowControl::UnconditionalBranch if is_near64(instruction) => Some(Class::Jump),
        FlowControl::ConditionalBranch if is_near64(instruction) => Some(Class::JumpIf),
        FlowControl::Call if is_near64(instruction) => Some(Class::Call),
        FlowControl::IndirectBranch if is_indirect64(instruction) => Some(Class::JumpIndirect),
        FlowControl::IndirectCall if is_indirect64(instruction) => Some(Class::CallIndirect),
        FlowControl::Return if matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16) => {
            Some(Class::Ret)
        }
        _ => Some(Class::Fault(vector::INVALID_OPCODE)),
    }
}

fn is_near64(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::NearBranch64
}

fn is_indirect64(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Jmp_rm64 | Code::Call_rm64)
}

fn classify_operands(instruction: &Instruction) -> Class {
    let Some(index) = instruction
        .op_kinds()
        .position(|kind| kind == OpKind::Memory)
    else {
        return Class::Plain;
    };
    let mut factory = InstructionInfoFactory::new();
    let access = factory.info(instruction).op_access(index as u32);
    let write = match access {
        OpAccess::NoMemAccess | OpAccess::None => return Class::Nop,
        OpAccess::Read | OpAccess::CondRead => false,
        _ => true,
    };
    let size = instruction.memory_size().size();
    if size == 0 || size > 64 {
        return Class::Helper;
    }
    Class::Memory {
        size: size as u16,
        write,
    }
}

/// Whether an operand is one of AH, CH, DH, BH, which no instruction with a REX
/// prefix can name.
pub(crate) fn has_high_byte(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|i| {
        instruction.op_kind(i) == OpKind::Register
            && matches!(
                instruction.op_register(i),
                Register::AH | Register::CH | Register::DH | Register::BH
            )
    })
}
