//! The processor that a guest sees: x86-64-v2 with a local APIC, RDRAND and an
//! invariant TSC of known frequency, and nothing that the engine does not do.
//!
//! Leaves and bits as in the Intel SDM, volume 2, "CPUID".

use belljar_abi::{ABI_VERSION, DETECT_LEAF, SIGNATURE};
use belljar_cpu::{CpuidEntry, CpuidTable};
use belljar_sim::Frequency;

const HIGHEST_BASIC: u32 = 0x16;
const HIGHEST_EXTENDED: u32 = 0x8000_0008;
const HYPERVISOR: u32 = 0x4000_0000;

/// Family 6, model 0x2c, stepping 1: Westmere, the last of Intel's that is
/// x86-64-v2 and no more.
const WESTMERE: u32 = 0x0002_06c1;

/// SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, x2APIC, POPCNT, TSC deadline, RDRAND, hypervisor.
const FEATURES_ECX: u32 = bits(&[0, 9, 13, 19, 20, 21, 23, 24, 30, 31]);
/// FPU, DE, PSE, TSC, MSR, PAE, MCE, CX8, APIC, MTRR, PGE, MCA, CMOV, PAT, CLFLUSH,
/// MMX, FXSR, SSE, SSE2.
const FEATURES_EDX: u32 = bits(&[
    0, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 19, 23, 24, 25, 26,
]);
/// ERMS, RDSEED.
const STRUCTURED_EBX: u32 = bits(&[9, 18]);
/// LAHF in 64-bit mode.
const EXTENDED_ECX: u32 = bits(&[0]);
/// SYSCALL, NX, 1 GiB pages, RDTSCP, long mode.
const EXTENDED_EDX: u32 = bits(&[11, 20, 26, 27, 29]);
/// The APIC timer runs in every power state.
const POWER_EAX: u32 = bits(&[2]);
/// The TSC runs at one rate in every power state.
const INVARIANT_TSC: u32 = bits(&[8]);

const PHYSICAL_BITS: u32 = 40;
const LINEAR_BITS: u32 = 48;

const fn bits(set: &[u32]) -> u32 {
    let mut value = 0;
    let mut index = 0;
    while index < set.len() {
        value |= 1 << set[index];
        index += 1;
    }
    value
}

/// Processor cycles per tick of the crystal that CPUID leaf 0x15 describes, which
/// is also the unit of the local APIC's counter: 1, or 2 where the clock's hertz
/// do not fit the leaf's 32 bits.
pub fn crystal_divider(frequency: Frequency) -> u64 {
    if frequency.as_hz() > u64::from(u32::MAX) {
        2
    } else {
        1
    }
}

/// What CPUID answers on a processor with clock `frequency` and APIC id `apic_id`.
pub fn table(frequency: Frequency, apic_id: u8) -> CpuidTable {
    let mut entries = basic(frequency, apic_id);
    entries.extend(caches());
    entries.extend(topology(apic_id));
    entries.extend(hypervisor());
    entries.extend(extended(frequency));
    CpuidTable { entries }
}

fn entry(leaf: u32, [eax, ebx, ecx, edx]: [u32; 4]) -> CpuidEntry {
    CpuidEntry {
        leaf,
        subleaf: None,
        eax,
        ebx,
        ecx,
        edx,
    }
}

fn subleaf(leaf: u32, subleaf: u32, registers: [u32; 4]) -> CpuidEntry {
    CpuidEntry {
        subleaf: Some(subleaf),
        ..entry(leaf, registers)
    }
}

fn word(text: &[u8], index: usize) -> u32 {
    let mut bytes = [0; 4];
    for (byte, value) in bytes.iter_mut().zip(text.iter().skip(index * 4)) {
        *byte = *value;
    }
    u32::from_le_bytes(bytes)
}

fn basic(frequency: Frequency, apic_id: u8) -> Vec<CpuidEntry> {
    let vendor = b"GenuineIntel";
    // CLFLUSH lines of 8 times 8 bytes, one logical processor.
    let ebx = u32::from(apic_id) << 24 | 1 << 16 | 8 << 8;
    let divider = crystal_divider(frequency);
    let crystal = u32::try_from(frequency.as_hz() / divider).unwrap_or(u32::MAX);
    let mhz = u32::try_from(frequency.as_hz() / 1_000_000).unwrap_or(u32::MAX) & 0xffff;
    vec![
        entry(
            0,
            [
                HIGHEST_BASIC,
                word(vendor, 0),
                word(vendor, 2),
                word(vendor, 1),
            ],
        ),
        entry(1, [WESTMERE, ebx, FEATURES_ECX, FEATURES_EDX]),
        // Descriptor 0xff: the caches are in leaf 4.
        entry(2, [0xff01, 0, 0, 0]),
        entry(6, [POWER_EAX, 0, 0, 0]),
        subleaf(7, 0, [0, STRUCTURED_EBX, 0, 0]),
        entry(0x15, [1, divider as u32, crystal, 0]),
        entry(0x16, [mhz, mhz, 100, 0]),
    ]
}

/// Leaf 4: data and instruction caches of 32 KiB, 256 KiB, then 12 MiB.
fn caches() -> Vec<CpuidEntry> {
    let cache = |index, kind: u32, level: u32, ways: u32, sets: u32| {
        let eax = kind | level << 5 | 1 << 8;
        subleaf(4, index, [eax, 63 | (ways - 1) << 22, sets - 1, 0])
    };
    vec![
        cache(0, 1, 1, 8, 64),
        cache(1, 2, 1, 4, 128),
        cache(2, 3, 2, 8, 512),
        cache(3, 3, 3, 16, 12_288),
    ]
}

/// Leaf 0xb: one thread per core, one core per package.
fn topology(apic_id: u8) -> Vec<CpuidEntry> {
    let id = u32::from(apic_id);
    vec![
        subleaf(0xb, 0, [0, 1, 1 << 8, id]),
        subleaf(0xb, 1, [0, 1, 2 << 8 | 1, id]),
        subleaf(0xb, 2, [0, 0, 2, id]),
    ]
}

/// KVM's signature with no feature: it is what lets Linux use x2APIC without
/// interrupt remapping. Belljar's own signature follows at its own leaf.
fn hypervisor() -> Vec<CpuidEntry> {
    let kvm = b"KVMKVMKVM\0\0\0";
    vec![
        entry(
            HYPERVISOR,
            [HYPERVISOR + 1, word(kvm, 0), word(kvm, 1), word(kvm, 2)],
        ),
        entry(
            DETECT_LEAF,
            [
                ABI_VERSION,
                word(&SIGNATURE, 0),
                word(&SIGNATURE, 1),
                word(&SIGNATURE, 2),
            ],
        ),
    ]
}

fn extended(frequency: Frequency) -> Vec<CpuidEntry> {
    let ghz = frequency.as_hz() as f64 / 1e9;
    let brand = format!("Belljar Virtual CPU @ {ghz:.2}GHz");
    let brand = brand.as_bytes();
    let mut entries = vec![
        entry(0x8000_0000, [HIGHEST_EXTENDED, 0, 0, 0]),
        entry(0x8000_0001, [0, 0, EXTENDED_ECX, EXTENDED_EDX]),
    ];
    for part in 0..3 {
        let at = part * 4;
        let words = [
            word(brand, at),
            word(brand, at + 1),
            word(brand, at + 2),
            word(brand, at + 3),
        ];
        entries.push(entry(0x8000_0002 + part as u32, words));
    }
    entries.extend([
        // 256 KiB of second-level cache, 8 ways, lines of 64 bytes.
        entry(0x8000_0006, [0, 0, 256 << 16 | 6 << 12 | 64, 0]),
        entry(0x8000_0007, [0, 0, 0, INVARIANT_TSC]),
        entry(0x8000_0008, [PHYSICAL_BITS | LINEAR_BITS << 8, 0, 0, 0]),
    ]);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hz(hz: u64) -> CpuidTable {
        table(Frequency::from_hz(hz).unwrap(), 0)
    }

    #[test]
    fn linux_calculates_the_exact_frequency() {
        for rate in [2_600_000_000, 1_000_000, 4_294_967_000, 5_000_000_000] {
            let [denominator, numerator, crystal, _] = hz(rate).answer(0x15, 0);
            // native_calibrate_tsc, in the kernel's 32-bit arithmetic.
            let khz = (crystal / 1000).checked_mul(numerator).unwrap() / denominator;
            assert_eq!(u64::from(khz) * 1000, rate);
        }
    }

    #[test]
    fn exactly_level_two_is_promised() {
        let table = hz(2_600_000_000);
        let [_, _, ecx, edx] = table.answer(1, 0);
        for (name, bit) in [
            ("pclmulqdq", 1),
            ("monitor", 3),
            ("fma", 12),
            ("pcid", 17),
            ("movbe", 22),
            ("aes", 25),
            ("xsave", 26),
            ("osxsave", 27),
            ("avx", 28),
            ("f16c", 29),
        ] {
            assert_eq!(ecx >> bit & 1, 0, "{name}");
        }
        assert_eq!(edx >> 11 & 1, 0, "sep");
        assert_eq!(table.answer(7, 0)[1], 1 << 9 | 1 << 18);
        assert_eq!(table.answer(7, 1), [0; 4]);
        assert_eq!(table.answer(0xd, 0), [0; 4]);
    }

    #[test]
    fn signatures_spell() {
        let table = hz(2_600_000_000);
        let text = |registers: [u32; 4], order: [usize; 3]| -> Vec<u8> {
            order
                .iter()
                .flat_map(|index| registers[*index].to_le_bytes())
                .collect()
        };
        assert_eq!(text(table.answer(0, 0), [1, 3, 2]), b"GenuineIntel");
        assert_eq!(
            text(table.answer(HYPERVISOR, 0), [1, 2, 3]),
            b"KVMKVMKVM\0\0\0"
        );
        assert_eq!(text(table.answer(DETECT_LEAF, 0), [1, 2, 3]), SIGNATURE);
        let brand: Vec<u8> = (2..5)
            .flat_map(|leaf| table.answer(0x8000_0000 + leaf, 0))
            .flat_map(u32::to_le_bytes)
            .collect();
        assert!(brand.starts_with(b"Belljar Virtual CPU @ 2.60GHz\0"));
    }
}
