//! The one table of instructions that are carried out in Rust: privileged ones,
//! those that change what code means, string instructions, and those whose result
//! would differ between hosts.

use iced_x86::{Code, Instruction, Mnemonic as M, OpKind, Register};

use super::Done;
use crate::memory::access::Stop;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::translate::guest::flags::undefined::{self, Count};

/// What carries out an instruction.
pub(crate) type Handler = fn(&mut ExactVcpu, &Instruction) -> Result<Done, Stop>;

/// What carries out `instruction`; `None` when translated code does it by itself.
pub(crate) fn handler(instruction: &Instruction) -> Option<Handler> {
    if instruction.is_string_instruction() {
        return Some(ExactVcpu::string);
    }
    by_name(instruction.mnemonic()).or_else(|| by_operands(instruction))
}

/// Whether `instruction` is carried out in Rust only so that its result is the same on every
/// host.
pub(crate) fn is_defined(instruction: &Instruction) -> bool {
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

fn by_name(mnemonic: M) -> Option<Handler> {
    Some(match mnemonic {
        M::Cli | M::Sti | M::Cld | M::Std | M::Hlt => ExactVcpu::flag_control,
        M::Pushf | M::Pushfd | M::Pushfq | M::Popf | M::Popfd | M::Popfq => ExactVcpu::flag_control,
        M::Cpuid => ExactVcpu::cpuid,
        M::Rdtsc | M::Rdtscp => ExactVcpu::rdtsc,
        M::Rdrand | M::Rdseed => ExactVcpu::rdrand,
        M::Rdmsr | M::Wrmsr => ExactVcpu::msr,
        M::In | M::Out => ExactVcpu::port,
        M::Syscall | M::Sysret | M::Sysretq | M::Iret | M::Iretd | M::Iretq => {
            ExactVcpu::control_transfer
        }
        M::Sysenter | M::Sysexit | M::Sysexitq => ExactVcpu::control_transfer,
        M::Int | M::Int1 | M::Int3 | M::Retf | M::Enter => ExactVcpu::control_transfer,
        M::Lgdt | M::Lidt | M::Sgdt | M::Sidt | M::Lldt | M::Sldt | M::Ltr | M::Str => {
            ExactVcpu::segment_instruction
        }
        M::Lfs | M::Lgs | M::Lss | M::Les | M::Lds | M::Swapgs => ExactVcpu::segment_instruction,
        M::Verr | M::Verw | M::Lar | M::Lsl => ExactVcpu::segment_instruction,
        M::Clts | M::Smsw | M::Lmsw | M::Invlpg | M::Invd | M::Wbinvd => {
            ExactVcpu::control_instruction
        }
        M::Fxsave | M::Fxsave64 | M::Fxrstor | M::Fxrstor64 => ExactVcpu::fpu_instruction,
        M::Fnsave | M::Frstor | M::Fnstenv | M::Fldenv => ExactVcpu::fpu_instruction,
        M::Xsave | M::Xsave64 | M::Xsaveopt | M::Xsaveopt64 | M::Xsavec | M::Xsavec64 => {
            ExactVcpu::xsave_instruction
        }
        M::Xrstor | M::Xrstor64 => ExactVcpu::xrstor,
        M::Xgetbv => ExactVcpu::xgetbv,
        M::Xsetbv => ExactVcpu::xsetbv,
        M::Ldmxcsr | M::Vldmxcsr => ExactVcpu::load_mxcsr,
        M::Xlatb | M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu => ExactVcpu::odd,
        M::Aaa | M::Aas | M::Aam | M::Aad | M::Daa | M::Das | M::Salc => ExactVcpu::adjust,
        M::Pusha | M::Pushad | M::Popa | M::Popad => ExactVcpu::push_pop_all,
        M::Bound | M::Into => ExactVcpu::check_range,
        M::Arpl => ExactVcpu::arpl,
        M::Jcxz => ExactVcpu::near_transfer,
        M::Fsin | M::Fcos | M::Fsincos | M::Fptan => ExactVcpu::transcendental,
        M::Fpatan | M::F2xm1 | M::Fyl2x | M::Fyl2xp1 => ExactVcpu::transcendental,
        M::Vrcp14ps | M::Vrcp14ss | M::Vrcp14pd | M::Vrcp14sd => ExactVcpu::approximate_closely,
        M::Vrsqrt14ps | M::Vrsqrt14ss | M::Vrsqrt14pd | M::Vrsqrt14sd => {
            ExactVcpu::approximate_closely
        }
        M::Rdpmc => ExactVcpu::no_counter,
        M::Ud0 | M::Ud1 | M::Ud2 => ExactVcpu::undefined,
        _ => return None,
    })
}

/// Instructions of which only some forms need help.
fn by_operands(instruction: &Instruction) -> Option<Handler> {
    let handler: Handler = match instruction.mnemonic() {
        M::Mov if names(instruction, |r| r.is_cr() || r.is_dr()) => ExactVcpu::control_instruction,
        M::Mov if names(instruction, Register::is_segment_register) => ExactVcpu::move_general,
        M::Push if !is_wide_push(instruction) => ExactVcpu::move_general,
        M::Pop if !is_wide_pop(instruction) => ExactVcpu::move_general,
        M::Leave if instruction.code() != Code::Leaveq => ExactVcpu::leave,
        M::Lea if is_odd_address(instruction) => ExactVcpu::load_address,
        _ if is_bit_string(instruction) => ExactVcpu::bit_string,
        M::Jmp | M::Call if is_far(instruction) => ExactVcpu::control_transfer,
        _ if is_open_shift(instruction) => ExactVcpu::double_shift,
        _ if instruction.is_vsib() && stores(instruction) => ExactVcpu::scatter,
        _ if instruction.is_vsib() => ExactVcpu::gather,
        M::Jmp | M::Call | M::Ret if !is_near64(instruction) => ExactVcpu::near_transfer,
        M::Loop | M::Loope | M::Loopne if counts_cx(instruction) => ExactVcpu::near_transfer,
        _ if instruction.is_privileged() => ExactVcpu::undefined,
        _ => return None,
    };
    Some(handler)
}

/// Whether an explicit register operand satisfies `test`.
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

/// An address that LEA of 64-bit code cannot compute: relative to RIP or constant
/// but cut to 16 bits, or made of 16-bit registers.
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

/// LOOP and kin whose address size, and so counter, has 16 bits.
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

/// SHLD or SHRD of 16 bits by more than that, or by what CL says: the result is undefined.
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

/// BT and kin with a register offset reach beyond their memory operand.
pub(crate) fn is_bit_string(instruction: &Instruction) -> bool {
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

impl ExactVcpu {
    /// Raises #UD: undefined by intent, or not offered.
    fn undefined(&mut self, _: &Instruction) -> Result<Done, Stop> {
        Err(Fault::invalid_opcode().into())
    }

    /// RDPMC: there are no counters, so that no number is one's.
    fn no_counter(&mut self, _: &Instruction) -> Result<Done, Stop> {
        Err(Fault::protection(0).into())
    }

    /// LEA of an address that translated code does not compute.
    fn load_address(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let address = self.effective_address(instruction);
        self.write_operand(instruction, 0, address)?;
        Ok(Done::Next)
    }
}
