//! Selection of instruction forms that can be compared with the host's processor.

use belljar_cpu::InstructionSet;
use iced_x86::{Code, CpuidFeature, FlowControl, Mnemonic, OpCodeOperandKind as Kind};

/// True if a processor with `set` has every feature of `code`.
pub fn is_offered(code: Code, set: &InstructionSet) -> bool {
    use CpuidFeature as F;
    let plain = |name: &str| name.replace(['.', '_'], "").to_lowercase();
    code.cpuid_features().iter().all(|feature| {
        matches!(
            feature,
            F::INTEL8086
                | F::INTEL186
                | F::INTEL286
                | F::INTEL386
                | F::INTEL486
                | F::X64
                | F::CMOV
                | F::CX8
                | F::CLFSH
                | F::FPU
                | F::FPU287
                | F::FPU387
                | F::FXSR
                | F::MMX
                | F::MULTIBYTENOP
                | F::SSE
                | F::SSE2
                | F::PAUSE
        ) || set
            .features()
            .any(|known| plain(known.name()) == plain(&format!("{feature:?}")))
    })
}

/// True for forms that can be compared; control transfers cannot, nor forms with machine-specific
/// results.
pub fn is_comparable(code: Code, set: &InstructionSet) -> bool {
    use Mnemonic as M;
    let op_code = code.op_code();
    op_code.mode64()
        && op_code.is_instruction()
        && is_offered(code, set)
        && !op_code.fwait()
        && !is_machines_own(code.mnemonic())
        && (code.flow_control() == FlowControl::Next || code.mnemonic() == M::Ud2)
        && !names_system_register(code)
        // AMD's processors load 32 bits.
        && code != Code::Movsxd_r16_rm16
}

/// Instructions that return or change the system's configuration, and XSAVE and similar ones, which
/// report the state in use differently on each processor.
fn is_machines_own(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Sgdt | M::Sidt | M::Sldt | M::Str | M::Smsw | M::Verr | M::Verw | M::Lar | M::Lsl
    ) || matches!(
        mnemonic,
        M::Popf | M::Popfq | M::Pushf | M::Pushfq | M::Lfs | M::Lgs | M::Lss | M::Rdpmc
    ) || matches!(
        mnemonic,
        M::Xsave
            | M::Xsave64
            | M::Xsaveopt
            | M::Xsaveopt64
            | M::Xsavec
            | M::Xsavec64
            | M::Xrstor
            | M::Xrstor64
            | M::Xgetbv
    ) || matches!(
        mnemonic,
        M::Zero_bytes
            | M::INVALID
            | M::Reservednop
            | M::Loadall
            | M::Umov
            | M::Xbts
            | M::Ibts
            | M::Feni
            | M::Fneni
            | M::Fdisi
            | M::Fndisi
            | M::Fsetpm
            | M::Fnsetpm
            | M::Frstpm
            | M::Fstdw
            | M::Fstsg
    )
}

/// MOV with segment, control and debug registers.
fn names_system_register(code: Code) -> bool {
    code.op_code().op_kinds().iter().any(|kind| {
        matches!(
            kind,
            Kind::seg_reg
                | Kind::cr_reg
                | Kind::dr_reg
                | Kind::tr_reg
                | Kind::fs
                | Kind::gs
                | Kind::ss
                | Kind::cs
                | Kind::ds
                | Kind::es
        )
    })
}

/// True if the form accepts both a register and memory.
pub fn has_memory_form(code: Code) -> bool {
    code.op_code().op_kinds().iter().any(|kind| {
        matches!(
            kind,
            Kind::r8_or_mem
                | Kind::r16_or_mem
                | Kind::r32_or_mem
                | Kind::r64_or_mem
                | Kind::mm_or_mem
                | Kind::xmm_or_mem
                | Kind::ymm_or_mem
                | Kind::zmm_or_mem
                | Kind::k_or_mem
        )
    })
}
