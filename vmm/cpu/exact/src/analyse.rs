//! What an instruction needs from the translator.

use iced_x86::{
    Code, CpuidFeature, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

use crate::state::vector;

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
    if is_helper(instruction) {
        return Class::Helper;
    }
    if let Some(class) = classify_flow(instruction) {
        return class;
    }
    match instruction.mnemonic() {
        Mnemonic::Nop | Mnemonic::Pause => Class::Nop,
        Mnemonic::Lea => classify_lea(instruction),
        Mnemonic::Push => classify_push(instruction),
        Mnemonic::Pop => classify_pop(instruction),
        Mnemonic::Leave if instruction.stack_pointer_increment() == 0 => {
            classify_leave(instruction)
        }
        _ => classify_operands(instruction),
    }
}

fn classify_leave(instruction: &Instruction) -> Class {
    if instruction.code() == Code::Leaveq {
        Class::Leave
    } else {
        Class::Helper
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

/// Instructions that are carried out in Rust: privileged ones, those that change
/// what code means, string instructions, and those whose result would differ
/// between hosts.
fn is_helper(instruction: &Instruction) -> bool {
    if instruction.is_string_instruction() || instruction.is_privileged() {
        return true;
    }
    if instruction.op_kinds().any(|kind| kind == OpKind::Register)
        && (0..instruction.op_count()).any(|i| {
            instruction.op_kind(i) == OpKind::Register
                && (instruction.op_register(i).is_segment_register()
                    || instruction.op_register(i).is_cr()
                    || instruction.op_register(i).is_dr())
        })
    {
        return true;
    }
    if is_bit_string(instruction) {
        return true;
    }
    is_system_mnemonic(instruction.mnemonic()) || is_far(instruction)
}

/// The instructions of [`is_helper`] that their name alone tells.
fn is_system_mnemonic(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Cpuid
            | M::Rdtsc
            | M::Rdtscp
            | M::Rdrand
            | M::Rdseed
            | M::Rdpmc
            | M::Rdmsr
            | M::Wrmsr
            | M::Syscall
            | M::Sysret
            | M::Sysretq
            | M::Iret
            | M::Iretd
            | M::Iretq
            | M::Int
            | M::Int1
            | M::Int3
            | M::Hlt
            | M::In
            | M::Out
            | M::Cli
            | M::Sti
            | M::Cld
            | M::Std
            | M::Pushf
            | M::Pushfd
            | M::Pushfq
            | M::Popf
            | M::Popfd
            | M::Popfq
            | M::Lgdt
            | M::Lidt
            | M::Sgdt
            | M::Sidt
            | M::Lldt
            | M::Sldt
            | M::Ltr
            | M::Str
            | M::Smsw
            | M::Lmsw
            | M::Clts
            | M::Invlpg
            | M::Invd
            | M::Wbinvd
            | M::Swapgs
            | M::Verr
            | M::Verw
            | M::Lar
            | M::Lsl
            | M::Lfs
            | M::Lgs
            | M::Lss
            | M::Retf
            | M::Enter
            | M::Xlatb
            | M::Maskmovq
            | M::Maskmovdqu
            | M::Fxsave
            | M::Fxsave64
            | M::Fxrstor
            | M::Fxrstor64
            | M::Fnsave
            | M::Frstor
            | M::Fnstenv
            | M::Fldenv
            | M::Ud0
            | M::Ud1
            | M::Ud2
    )
}

fn is_far(instruction: &Instruction) -> bool {
    instruction.is_jmp_far()
        || instruction.is_jmp_far_indirect()
        || instruction.is_call_far()
        || instruction.is_call_far_indirect()
}

/// BT and kin with a register offset reach beyond their memory operand.
fn is_bit_string(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    ) && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register
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

fn classify_lea(instruction: &Instruction) -> Class {
    if instruction.is_ip_rel_memory_operand() && instruction.op0_register().size() < 4 {
        return Class::Helper;
    }
    Class::Lea
}

fn classify_push(instruction: &Instruction) -> Class {
    if instruction.stack_pointer_increment() == -8 {
        Class::Push
    } else {
        Class::Helper
    }
}

fn classify_pop(instruction: &Instruction) -> Class {
    if instruction.stack_pointer_increment() == 8 && instruction.op0_kind() == OpKind::Register {
        Class::Pop
    } else {
        Class::Helper
    }
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
