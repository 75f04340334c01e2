//! Requirements on the host's processor.
//!
//! A host that passes can execute every instruction of the guest's set that the engine does not
//! execute in Rust. The vCPU's construction checks it, and so do `belljar doctor` and plans, to
//! report missing features before a run begins.

use belljar_cpu::{CpuError, Feature, InstructionSet};

/// Checks that this host can run guests of `set`: BMI2 for the translator's own sequences, FSGSBASE
/// for the context's address, and all features that translated guest instructions use.
///
/// # Errors
/// [`CpuError::HostFeature`] or [`CpuError::HostLevel`] with the missing features.
pub fn host_requirements(set: &InstructionSet) -> Result<(), CpuError> {
    if !std::arch::is_x86_feature_detected!("bmi2") {
        return Err(CpuError::HostFeature("BMI2"));
    }
    if !user_may_write_gs() {
        return Err(CpuError::HostFeature(
            "FSGSBASE (enabled by Linux 5.9 or newer)",
        ));
    }
    let missing: Vec<&str> = set
        .features()
        .filter(|&feature| !host_has(feature))
        .map(Feature::name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(CpuError::HostLevel {
        set: set.to_string(),
        missing: missing.join(", "),
    })
}

/// The features of this host's processor on which translated code depends, in words.
pub(crate) fn host_features() -> String {
    let features = Feature::ALL
        .iter()
        .copied()
        .filter(|&feature| host_has(feature));
    features.map(Feature::name).collect::<Vec<_>>().join(" ")
}

/// Linux reports in AT_HWCAP2 whether it enabled the FSGSBASE instructions.
#[allow(unsafe_code)]
fn user_may_write_gs() -> bool {
    const HWCAP2_FSGSBASE: u64 = 2;
    // SAFETY: reads the process's auxiliary vector.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & HWCAP2_FSGSBASE != 0 }
}

/// True if the host's processor and kernel let programs use `feature`. XSAVE and similar
/// instructions are executed in Rust, and every processor with BMI2 has LAHF.
fn host_has(feature: Feature) -> bool {
    use Feature as F;
    use std::arch::is_x86_feature_detected as detected;
    match feature {
        F::Xsave | F::Xsaveopt | F::Xsavec | F::Lahf => true,
        F::Sse3 => detected!("sse3"),
        F::Ssse3 => detected!("ssse3"),
        F::Cmpxchg16b => detected!("cmpxchg16b"),
        F::Sse41 => detected!("sse4.1"),
        F::Sse42 => detected!("sse4.2"),
        F::Popcnt => detected!("popcnt"),
        F::Fma => detected!("fma"),
        F::Movbe => detected!("movbe"),
        F::Avx => detected!("avx"),
        F::F16c => detected!("f16c"),
        F::Bmi1 => detected!("bmi1"),
        F::Avx2 => detected!("avx2"),
        F::Bmi2 => detected!("bmi2"),
        F::Lzcnt => detected!("lzcnt"),
        F::Avx512f => detected!("avx512f"),
        F::Avx512dq => detected!("avx512dq"),
        F::Avx512cd => detected!("avx512cd"),
        F::Avx512bw => detected!("avx512bw"),
        F::Avx512vl => detected!("avx512vl"),
        F::Aes => detected!("aes"),
        F::Pclmulqdq => detected!("pclmulqdq"),
        F::Sha => detected!("sha"),
        F::Adx => detected!("adx"),
        F::Gfni => detected!("gfni"),
        F::Vaes => detected!("vaes"),
        F::Vpclmulqdq => detected!("vpclmulqdq"),
        F::Avx512ifma => detected!("avx512ifma"),
        F::Avx512vbmi => detected!("avx512vbmi"),
        F::Avx512vbmi2 => detected!("avx512vbmi2"),
        F::Avx512vnni => detected!("avx512vnni"),
        F::Avx512bitalg => detected!("avx512bitalg"),
        F::Avx512vpopcntdq => detected!("avx512vpopcntdq"),
    }
}
