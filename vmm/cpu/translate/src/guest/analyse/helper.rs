//! The table of instructions that are executed in Rust: privileged ones, ones that change the meaning
//! of code, string instructions, and ones whose result would differ between hosts.
//!
//! `classify` checks whether there is a helper; to execute the instruction, `instructions` finds the
//! same helper and calls its function.

use iced_x86::{Code, Instruction, Mnemonic as M, OpKind, Register};

use crate::guest::flags::undefined::{self, Count};

/// The helper that executes an instruction in Rust; `instructions` has a function for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Helper {
    /// String instructions, with or without a repeat prefix.
    String,
    /// System flags, HLT, PUSHF and POPF.
    FlagControl,
    /// CPUID.
    Cpuid,
    /// RDTSC and RDTSCP.
    Rdtsc,
    /// RDRAND and RDSEED.
    Rdrand,
    /// RDMSR and WRMSR.
    Msr,
    /// IN and OUT.
    Port,
    /// Far transfers, interrupts, system calls and their returns, ENTER.
    ControlTransfer,
    /// Descriptor tables, segment registers and inspection of descriptors.
    SegmentInstruction,
    /// Control and debug registers, INVLPG, cache control.
    ControlInstruction,
    /// FXSAVE, FNSAVE and similar instructions.
    FpuInstruction,
    /// XSAVE and similar instructions.
    XsaveInstruction,
    /// XRSTOR.
    Xrstor,
    /// XGETBV.
    Xgetbv,
    /// XSETBV.
    Xsetbv,
    /// LDMXCSR.
    LoadMxcsr,
    /// XLAT and the masked moves to DS:RDI.
    Odd,
    /// Decimal adjustments and SALC.
    Adjust,
    /// PUSHA and POPA.
    PushPopAll,
    /// BOUND and INTO.
    CheckRange,
    /// ARPL.
    Arpl,
    /// Near transfers with other widths than in 64-bit code, loops that count CX.
    NearTransfer,
    /// Transcendental functions of the x87.
    Transcendental,
    /// Approximations to 14 bits.
    ApproximateClosely,
    /// RDPMC.
    NoCounter,
    /// Intentional #UD, and privileged instructions that the processor lacks.
    Undefined,
    /// MOV, PUSH and POP with segment registers or other widths.
    MoveGeneral,
    /// LEAVE of other widths.
    Leave,
    /// LEA of addresses that 64-bit code cannot compute.
    LoadAddress,
    /// BT and similar instructions with an offset beyond their operand.
    BitString,
    /// SHLD and SHRD with undefined results.
    DoubleShift,
    /// Scatters.
    Scatter,
    /// Gathers.
    Gather,
}

#[cfg(test)]
impl Helper {
    /// The number of helpers.
    const COUNT: usize = Self::Gather as usize + 1;
}

/// The helper that executes `instruction`; `None` if translated code executes it itself.
pub fn helper_of(instruction: &Instruction) -> Option<Helper> {
    if instruction.is_string_instruction() {
        return Some(Helper::String);
    }
    by_name(instruction.mnemonic()).or_else(|| by_operands(instruction))
}

/// True if `instruction` is executed in Rust only to get the same result on every host.
pub fn is_defined(instruction: &Instruction) -> bool {
    is_open_shift(instruction)
        || matches!(
            instruction.mnemonic(),
            M::Vrcp14ps
                | M::Vrcp14ss
                | M::Vrcp14pd
                | M::Vrcp14sd
                | M::Vrsqrt14ps
                | M::Vrsqrt14ss
                | M::Vrsqrt14pd
                | M::Vrsqrt14sd
                | M::Fsin
                | M::Fcos
                | M::Fsincos
                | M::Fptan
                | M::Fpatan
                | M::F2xm1
                | M::Fyl2x
                | M::Fyl2xp1
        )
}

fn by_name(mnemonic: M) -> Option<Helper> {
    Some(match mnemonic {
        M::Cli | M::Sti | M::Cld | M::Std | M::Hlt => Helper::FlagControl,
        M::Pushf | M::Pushfd | M::Pushfq | M::Popf | M::Popfd | M::Popfq => Helper::FlagControl,
        M::Cpuid => Helper::Cpuid,
        M::Rdtsc | M::Rdtscp => Helper::Rdtsc,
        M::Rdrand | M::Rdseed => Helper::Rdrand,
        M::Rdmsr | M::Wrmsr => Helper::Msr,
        M::In | M::Out => Helper::Port,
        M::Syscall | M::Sysret | M::Sysretq | M::Iret | M::Iretd | M::Iretq => {
            Helper::ControlTransfer
        }
        M::Sysenter | M::Sysexit | M::Sysexitq => Helper::ControlTransfer,
        M::Int | M::Int1 | M::Int3 | M::Retf | M::Enter => Helper::ControlTransfer,
        M::Lgdt | M::Lidt | M::Sgdt | M::Sidt | M::Lldt | M::Sldt | M::Ltr | M::Str => {
            Helper::SegmentInstruction
        }
        M::Lfs | M::Lgs | M::Lss | M::Les | M::Lds | M::Swapgs => Helper::SegmentInstruction,
        M::Verr | M::Verw | M::Lar | M::Lsl => Helper::SegmentInstruction,
        M::Clts | M::Smsw | M::Lmsw | M::Invlpg | M::Invd | M::Wbinvd => Helper::ControlInstruction,
        M::Fxsave | M::Fxsave64 | M::Fxrstor | M::Fxrstor64 => Helper::FpuInstruction,
        M::Fnsave | M::Frstor | M::Fnstenv | M::Fldenv => Helper::FpuInstruction,
        M::Xsave | M::Xsave64 | M::Xsaveopt | M::Xsaveopt64 | M::Xsavec | M::Xsavec64 => {
            Helper::XsaveInstruction
        }
        M::Xrstor | M::Xrstor64 => Helper::Xrstor,
        M::Xgetbv => Helper::Xgetbv,
        M::Xsetbv => Helper::Xsetbv,
        M::Ldmxcsr | M::Vldmxcsr => Helper::LoadMxcsr,
        M::Xlatb | M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu => Helper::Odd,
        M::Aaa | M::Aas | M::Aam | M::Aad | M::Daa | M::Das | M::Salc => Helper::Adjust,
        M::Pusha | M::Pushad | M::Popa | M::Popad => Helper::PushPopAll,
        M::Bound | M::Into => Helper::CheckRange,
        M::Arpl => Helper::Arpl,
        M::Jcxz => Helper::NearTransfer,
        M::Fsin | M::Fcos | M::Fsincos | M::Fptan => Helper::Transcendental,
        M::Fpatan | M::F2xm1 | M::Fyl2x | M::Fyl2xp1 => Helper::Transcendental,
        M::Vrcp14ps | M::Vrcp14ss | M::Vrcp14pd | M::Vrcp14sd => Helper::ApproximateClosely,
        M::Vrsqrt14ps | M::Vrsqrt14ss | M::Vrsqrt14pd | M::Vrsqrt14sd => Helper::ApproximateClosely,
        M::Rdpmc => Helper::NoCounter,
        M::Ud0 | M::Ud1 | M::Ud2 => Helper::Undefined,
        _ => return None,
    })
}

/// Instructions with some forms that need a helper.
fn by_operands(instruction: &Instruction) -> Option<Helper> {
    let helper = match instruction.mnemonic() {
        M::Mov if names(instruction, |r| r.is_cr() || r.is_dr()) => Helper::ControlInstruction,
        M::Mov if names(instruction, Register::is_segment_register) => Helper::MoveGeneral,
        M::Push if !is_wide_push(instruction) => Helper::MoveGeneral,
        M::Pop if !is_wide_pop(instruction) => Helper::MoveGeneral,
        M::Leave if instruction.code() != Code::Leaveq => Helper::Leave,
        M::Lea if is_odd_address(instruction) => Helper::LoadAddress,
        _ if is_bit_string(instruction) => Helper::BitString,
        M::Jmp | M::Call if is_far(instruction) => Helper::ControlTransfer,
        _ if is_open_shift(instruction) => Helper::DoubleShift,
        _ if instruction.is_vsib() && stores(instruction) => Helper::Scatter,
        _ if instruction.is_vsib() => Helper::Gather,
        M::Jmp | M::Call | M::Ret if !is_near64(instruction) => Helper::NearTransfer,
        M::Loop | M::Loope | M::Loopne if counts_cx(instruction) => Helper::NearTransfer,
        _ if instruction.is_privileged() => Helper::Undefined,
        _ => return None,
    };
    Some(helper)
}

/// True if an explicit register operand satisfies `test`.
fn names(instruction: &Instruction, test: impl Fn(Register) -> bool) -> bool {
    (0..instruction.op_count())
        .any(|i| instruction.op_kind(i) == OpKind::Register && test(instruction.op_register(i)))
}

fn is_wide_push(instruction: &Instruction) -> bool {
    instruction.stack_pointer_increment() == -8
        && !names(instruction, Register::is_segment_register)
}

fn is_wide_pop(instruction: &Instruction) -> bool {
    instruction.stack_pointer_increment() == 8
        && instruction.op0_kind() == OpKind::Register
        && !instruction.op0_register().is_segment_register()
}

/// An address that LEA of 64-bit code cannot compute: RIP-relative or constant but truncated to 16
/// bits, or made of 16-bit registers.
fn is_odd_address(instruction: &Instruction) -> bool {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let constant = instruction.is_ip_rel_memory_operand()
        || (base == Register::None && index == Register::None);
    let short = [base, index]
        .into_iter()
        .any(|register| register.is_gpr16());
    short || (constant && instruction.op0_register().size() < 4)
}

fn is_near64(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::NearBranch64
        || matches!(
            instruction.code(),
            Code::Jmp_rm64 | Code::Call_rm64 | Code::Retnq | Code::Retnq_imm16
        )
}

/// LOOP and similar instructions with an address size, and so a counter, of 16 bits.
fn counts_cx(instruction: &Instruction) -> bool {
    use Code as C;
    matches!(
        instruction.code(),
        C::Loop_rel8_16_CX
            | C::Loop_rel8_32_CX
            | C::Loope_rel8_16_CX
            | C::Loope_rel8_32_CX
            | C::Loopne_rel8_16_CX
            | C::Loopne_rel8_32_CX
    )
}

/// SHLD or SHRD of 16 bits by more than 16, or by CL: the result is undefined.
fn is_open_shift(instruction: &Instruction) -> bool {
    let words = matches!(
        instruction.code(),
        Code::Shld_rm16_r16_imm8
            | Code::Shrd_rm16_r16_imm8
            | Code::Shld_rm16_r16_CL
            | Code::Shrd_rm16_r16_CL
    );
    words && !matches!(undefined::count(instruction), Count::Known(..=16))
}

fn stores(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Memory
}

/// True for BT and similar instructions with a register offset, which may be beyond the memory operand.
pub fn is_bit_string(instruction: &Instruction) -> bool {
    let name = instruction.mnemonic();
    matches!(name, M::Bt | M::Bts | M::Btr | M::Btc)
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register
}

fn is_far(instruction: &Instruction) -> bool {
    instruction.is_jmp_far()
        || instruction.is_jmp_far_indirect()
        || instruction.is_call_far()
        || instruction.is_call_far_indirect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use belljar_cpu::{InstructionSet, Level};
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;
    use crate::guest::analyse::{InstructionClass, classify};
    use crate::guest::features::Features;
    use crate::guest::size::CodeSize;

    /// Beginnings of encodings: the bytes before the opcode's last byte.
    const BEFORE: [&[u8]; 20] = [
        &[],
        &[0x66],
        &[0x67],
        &[0xf2],
        &[0xf3],
        &[0x48],
        &[0x0f],
        &[0x66, 0x0f],
        &[0xf3, 0x0f],
        &[0xf2, 0x0f],
        &[0x48, 0x0f],
        &[0x66, 0x48, 0x0f],
        &[0x66, 0x0f, 0x38],
        &[0x66, 0x0f, 0x3a],
        &[0x0f, 0x38],
        &[0xc5, 0xf9],
        &[0xc5, 0xf8],
        &[0xc4, 0xe2, 0x79],
        &[0x62, 0xf2, 0x7d, 0x49],
        &[0x62, 0xf2, 0xfd, 0x49],
    ];

    /// Calls `each` with every opcode with every ModRM byte, in each of the code sizes.
    fn encodings(mut each: impl FnMut(&Instruction, CodeSize)) {
        for size in [CodeSize::Long, CodeSize::Flat32, CodeSize::Segmented16] {
            for before in BEFORE {
                for [opcode, operand] in (0..=u16::MAX).map(u16::to_be_bytes) {
                    let mut bytes = before.to_vec();
                    bytes.extend([opcode, operand, 0x25, 1, 2, 3, 4, 5, 6, 7, 8]);
                    let options = DecoderOptions::NONE;
                    let one = Decoder::with_ip(size.bits(), &bytes, 0x1000, options).decode();
                    each(&one, size);
                }
            }
        }
    }

    #[test]
    fn what_is_left_to_rust_has_a_helper_and_each_helper_something_to_do() {
        let all =
            Features::new(&InstructionSet::from(Level::V4)).under(0x8005_0033, 0x4_06b0, 0xe7);
        let mut seen = BTreeSet::new();
        let mut lost = BTreeSet::new();
        encodings(|instruction, size| {
            let features = Features { size, ..all };
            let helper = helper_of(instruction);
            seen.extend(helper);
            // Operands of odd sizes are refused at execution.
            let odd = !(1..=64).contains(&instruction.memory_size().size());
            if classify(instruction, &features) == InstructionClass::Helper
                && helper.is_none()
                && !odd
            {
                lost.insert(format!("{:?}", instruction.code()));
            }
        });
        assert!(lost.is_empty(), "nobody carries out {lost:?}");
        let used: BTreeSet<usize> = seen.iter().map(|&helper| helper as usize).collect();
        assert!(
            used.into_iter().eq(0..Helper::COUNT),
            "only {seen:?} are used"
        );
    }
}
