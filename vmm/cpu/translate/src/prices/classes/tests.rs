//! Every instruction of a guest has a class, the expected one.
use super::*;
use crate::prices::timing::TICKS_PER_CYCLE;

#[test]
fn every_vector_instruction_has_a_name_that_tells_its_class() {
    let known = [GENERAL, SYSTEM, CRYPTO, X87].concat();
    let unknown: Vec<_> = Code::values()
        .filter(|code| {
            let features = code.cpuid_features();
            features.iter().all(|feature| OFFERED.contains(feature))
                && !features.iter().any(|feature| known.contains(feature))
                && special(code.mnemonic()).is_none()
                && vector(code.mnemonic()).is_none()
        })
        .collect();
    assert_eq!(unknown, []);
}

/// Vector features that a guest may have.
const OFFERED: &[C] = &[
    C::MMX,
    C::SSE,
    C::SSE2,
    C::SSE3,
    C::SSSE3,
    C::SSE4_1,
    C::SSE4_2,
    C::AVX,
    C::AVX2,
    C::FMA,
    C::F16C,
    C::AVX512F,
    C::AVX512BW,
    C::AVX512CD,
    C::AVX512DQ,
    C::AVX512VL,
    C::AVX512_IFMA,
    C::AVX512_VBMI,
    C::AVX512_VBMI2,
    C::AVX512_VNNI,
    C::AVX512_BITALG,
    C::AVX512_VPOPCNTDQ,
];

#[test]
fn instructions_are_of_the_class_that_one_expects() {
    use CostClass as K;
    for (code, class) in [
        (Code::Add_r64_rm64, K::Integer),
        (Code::Mov_rm64_r64, K::Integer),
        (Code::Cmovl_r64_rm64, K::Integer),
        (Code::VEX_Andn_r64_r64_rm64, K::Integer),
        (Code::Popcnt_r64_rm64, K::Integer),
        (Code::Nopd, K::Integer),
        (Code::Push_r64, K::Integer),
        (Code::Imul_r64_rm64, K::Multiply),
        (Code::Div_rm64, K::Divide),
        (Code::Jne_rel8_64, K::Branch),
        (Code::Call_rel32_64, K::Branch),
        (Code::Retnq, K::Branch),
        (Code::Loop_rel8_64_RCX, K::Branch),
        (Code::Jmp_rm64, K::Branch),
        (Code::Addsd_xmm_xmmm64, K::Fp),
        (Code::Cvttsd2si_r64_xmmm64, K::Fp),
        (Code::Cvtsi2sd_xmm_rm64, K::Fp),
        (Code::Ucomisd_xmm_xmmm64, K::Fp),
        (Code::VEX_Vfmadd231sd_xmm_xmm_xmmm64, K::Fp),
        (Code::Fadd_m64fp, K::Fp),
        (Code::Fsin, K::Transcendental),
        (Code::Divsd_xmm_xmmm64, K::FpDivide),
        (Code::Sqrtss_xmm_xmmm32, K::FpDivide),
        (Code::Fdivp_sti_st0, K::FpDivide),
        (Code::Movsd_xmm_xmmm64, K::VectorInteger),
        (Code::Pabsd_xmm_xmmm128, K::VectorInteger),
        (Code::Paddd_mm_mmm64, K::VectorInteger),
        (Code::VEX_Kandw_kr_kr_kr, K::VectorInteger),
        (Code::Movaps_xmm_xmmm128, K::VectorInteger),
        (Code::Addpd_xmm_xmmm128, K::VectorFp),
        (Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256, K::VectorFp),
        (Code::Rsqrtps_xmm_xmmm128, K::VectorFp),
        (Code::Cvtps2pd_xmm_xmmm64, K::VectorFp),
        (
            Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er,
            K::VectorFpDivide,
        ),
        (Code::Aesenc_xmm_xmmm128, K::Crypto),
        (Code::Crc32_r32_rm32, K::Crypto),
        (Code::Movsd_m32_m32, K::String),
        (Code::Stosb_m8_AL, K::String),
        (Code::Mfence, K::Atomic),
        (Code::Syscall, K::System),
        (Code::Iretq, K::System),
        (Code::Cpuid, K::System),
        (Code::Mov_cr_r64, K::System),
        (Code::Wrmsr, K::System),
        (Code::In_AL_DX, K::System),
        (Code::Fxsave_m512byte, K::System),
        (Code::Xsaveopt_mem, K::System),
        (Code::Int_imm8, K::System),
    ] {
        assert_eq!(class_of(code), class, "{code:?}");
    }
}

#[test]
fn accesses_are_paid_for_beside_the_work() {
    use iced_x86::code_asm::*;
    let prices = Prices::new(&Costs::default());
    let price = |make: &dyn Fn(&mut CodeAssembler)| {
        let mut a = CodeAssembler::new(64).unwrap();
        make(&mut a);
        let instruction = a.instructions()[0];
        prices.of(&instruction, &mut InstructionInfoFactory::new())
    };
    let of = CostClass::default_ticks;
    use CostClass as K;
    assert_eq!(price(&|a| a.add(rax, rbx).unwrap()), of(K::Integer));
    assert_eq!(
        price(&|a| a.add(rax, ptr(rbx)).unwrap()),
        of(K::Integer) + of(K::Load)
    );
    assert_eq!(
        price(&|a| a.add(qword_ptr(rbx), rax).unwrap()),
        of(K::Integer) + of(K::Load) + of(K::Store)
    );
    assert_eq!(
        price(&|a| a.push(rax).unwrap()),
        of(K::Integer) + of(K::Store)
    );
    assert_eq!(price(&|a| a.ret().unwrap()), of(K::Branch) + of(K::Load));
    assert_eq!(
        price(&|a| a.lea(rax, ptr(rbx + 8)).unwrap()),
        of(K::Integer)
    );
    assert_eq!(
        price(&|a| a.lock().add(ptr(rbx), rax).unwrap()),
        of(K::Atomic)
    );
    assert_eq!(price(&|a| a.xchg(ptr(rbx), rax).unwrap()), of(K::Atomic));
    assert_eq!(price(&|a| a.rep().movsb().unwrap()), of(K::String));
    let uniform = Prices::new(&Costs::uniform(TICKS_PER_CYCLE));
    for code in Code::values() {
        assert_eq!(uniform.own[code as usize], TICKS_PER_CYCLE, "{code:?}");
    }
}
