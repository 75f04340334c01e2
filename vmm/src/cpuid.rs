//! The processor that a guest sees: the scenario's instruction set with a local APIC, RDRAND and an
//! invariant TSC of known frequency, limited to features of the engine.
//!
//! Leaves and bits as in the Intel SDM, volume 2, "CPUID".

use belljar_abi::{ABI_VERSION, DETECT_LEAF, SIGNATURE};
use belljar_cpu::{
    CpuidBit, CpuidEntry, CpuidRegister, CpuidTable, InstructionSet, Level, STATE_COMPONENTS,
    compacted_size, standard_size,
};
use belljar_sim::Frequency;

/// The highest basic leaf with one processor, and with several: the latter have topology leaves.
const HIGHEST_BASIC: [u32; 2] = [0x16, 0x1f];
const HIGHEST_EXTENDED: u32 = 0x8000_0008;
const HYPERVISOR: u32 = 0x4000_0000;

/// Family, model and stepping of an Intel processor with this level and hardly more, for software
/// that decides by the model: Merom, Westmere, Haswell, and the server version of Skylake.
fn model(level: Level) -> u32 {
    match level {
        Level::V1 => 0x0000_06f6,
        Level::V2 => 0x0002_06c1,
        Level::V3 => 0x0003_06c3,
        Level::V4 => 0x0005_0654,
    }
}

/// x2APIC, RDRAND, hypervisor. There is no TSC deadline: KVM handles a write of `IA32_TSC_DEADLINE`
/// before it considers exiting to user space (`handle_fastpath_wrmsr`; on Intel's processors since
/// Linux 5.8, on all since 6.18), and without an in-kernel interrupt controller the write has no
/// effect, so the deadline would never fire. A machine is the same under every engine, so guests
/// always use the local APIC's counter.
const FEATURES_ECX: u32 = bits(&[21, 30, 31]);
/// FPU, DE, PSE, TSC, MSR, PAE, MCE, CX8, APIC, SYSENTER, MTRR, PGE, MCA, CMOV, PAT, CLFLUSH,
/// MMX, FXSR, SSE, SSE2.
const FEATURES_EDX: u32 = bits(&[
    0, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 19, 23, 24, 25, 26,
]);
/// The bit of EDX by which leaf 1 reports the package's number of logical processors.
const HYPER_THREADING: u32 = 28;
/// ERMS, RDSEED.
const STRUCTURED_EBX: u32 = bits(&[9, 18]);
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

/// Processor cycles per tick of the crystal that CPUID leaf 0x15 describes, which is also the unit of
/// the local APIC's counter: 1, or 2 if the clock's hertz do not fit the leaf's 32 bits.
pub fn crystal_divider(frequency: Frequency) -> u64 {
    if frequency.as_hz() > u64::from(u32::MAX) {
        2
    } else {
        1
    }
}

/// The position of a processor in its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorPosition {
    /// Its APIC id, from 0.
    pub id: u32,
    /// Number of processors, all cores of one package.
    pub of: u32,
}

impl ProcessorPosition {
    /// Bits of an APIC id that number the cores of the package.
    fn core_bits(self) -> u32 {
        self.of.next_power_of_two().ilog2()
    }
}

/// CPUID's answers on the processor at `place`, with instruction set `set` and clock `frequency`. The
/// engine fills in the values that depend on CR4 and XCR0 (OSXSAVE, the size of an XSAVE area).
pub fn table(frequency: Frequency, place: ProcessorPosition, set: &InstructionSet) -> CpuidTable {
    let mut entries = basic(frequency, place, set.level());
    entries.extend(extended_states(set));
    entries.extend(caches(place));
    entries.extend(topology(place));
    entries.extend(hypervisor());
    entries.extend(extended(frequency));
    for feature in set.features() {
        promise(&mut entries, feature.cpuid());
    }
    CpuidTable { entries }
}

/// Sets a feature's bit in its leaf.
fn promise(entries: &mut [CpuidEntry], place: CpuidBit) {
    let listed = entries.iter_mut().find(|entry| {
        entry.leaf == place.leaf && entry.subleaf.is_none_or(|subleaf| subleaf == place.subleaf)
    });
    let Some(entry) = listed else {
        unreachable!(
            "leaf {:#x} tells of a feature and is not listed",
            place.leaf
        )
    };
    let register = match place.register {
        CpuidRegister::Eax => &mut entry.eax,
        CpuidRegister::Ebx => &mut entry.ebx,
        CpuidRegister::Ecx => &mut entry.ecx,
        CpuidRegister::Edx => &mut entry.edx,
    };
    *register |= 1 << place.bit;
}

/// Leaf 0xd: the state that XSAVE saves, if there is XSAVE.
fn extended_states(set: &InstructionSet) -> Vec<CpuidEntry> {
    let all = set.state_components();
    if all == 0 {
        return Vec::new();
    }
    let largest = standard_size(all) as u32;
    let least = standard_size(0b11) as u32;
    let mut entries = vec![
        subleaf(0xd, 0, [all as u32, least, largest, 0]),
        subleaf(0xd, 1, [0, compacted_size(0b11) as u32, 0, 0]),
    ];
    entries.extend(
        STATE_COMPONENTS
            .into_iter()
            .filter(|component| all >> component.number & 1 == 1)
            .map(|component| {
                let (bytes, offset) = (component.bytes as u32, component.offset as u32);
                subleaf(0xd, component.number, [bytes, offset, 0, 0])
            }),
    );
    entries
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

fn basic(frequency: Frequency, place: ProcessorPosition, level: Level) -> Vec<CpuidEntry> {
    let vendor = b"GenuineIntel";
    let many = place.of > 1;
    // CLFLUSH lines of 8 times 8 bytes; room for that many APIC ids in the package.
    let ebx = place.id << 24 | 1 << (place.core_bits() + 16) | 8 << 8;
    let edx = FEATURES_EDX | u32::from(many) << HYPER_THREADING;
    let divider = crystal_divider(frequency);
    let crystal = u32::try_from(frequency.as_hz() / divider).unwrap_or(u32::MAX);
    let mhz = u32::try_from(frequency.as_hz() / 1_000_000).unwrap_or(u32::MAX) & 0xffff;
    vec![
        entry(
            0,
            [
                HIGHEST_BASIC[usize::from(many)],
                word(vendor, 0),
                word(vendor, 2),
                word(vendor, 1),
            ],
        ),
        entry(1, [model(level), ebx, FEATURES_ECX, edx]),
        // Descriptor 0xff: the caches are in leaf 4.
        entry(2, [0xff01, 0, 0, 0]),
        entry(6, [POWER_EAX, 0, 0, 0]),
        subleaf(7, 0, [0, STRUCTURED_EBX, 0, 0]),
        entry(0x15, [1, divider as u32, crystal, 0]),
        entry(0x16, [mhz, mhz, 100, 0]),
    ]
}

/// Leaf 4: data and instruction caches of 32 KiB, 256 KiB for each core, then 12 MiB
/// for all of them.
fn caches(place: ProcessorPosition) -> Vec<CpuidEntry> {
    let ids = (1 << place.core_bits()) - 1;
    let cache = |index, kind: u32, level: u32, ways: u32, sets: u32| {
        let sharing = if level == 3 { ids } else { 0 };
        let eax = kind | level << 5 | 1 << 8 | sharing << 14 | ids << 26;
        subleaf(4, index, [eax, 63 | (ways - 1) << 22, sets - 1, 0])
    };
    vec![
        cache(0, 1, 1, 8, 64),
        cache(1, 2, 1, 4, 128),
        cache(2, 3, 2, 8, 512),
        cache(3, 3, 3, 16, 12_288),
    ]
}

/// Leaves 0xb and, with several processors, 0x1f, with the same contents: one thread per core, all
/// cores in one package.
fn topology(place: ProcessorPosition) -> Vec<CpuidEntry> {
    let ProcessorPosition { id, of } = place;
    let levels = |leaf| {
        [
            subleaf(leaf, 0, [0, 1, 1 << 8, id]),
            subleaf(leaf, 1, [place.core_bits(), of, 2 << 8 | 1, id]),
            subleaf(leaf, 2, [0, 0, 2, id]),
        ]
    };
    let mut entries = levels(0xb).to_vec();
    if of > 1 {
        entries.extend(levels(0x1f));
    }
    entries
}

/// KVM's signature without features: Linux requires it to use x2APIC without interrupt remapping.
/// Belljar's own signature is at its own leaf.
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
        entry(0x8000_0001, [0, 0, 0, EXTENDED_EDX]),
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
    use belljar_cpu::Feature;

    const ALONE: ProcessorPosition = ProcessorPosition { id: 0, of: 1 };

    fn of(level: Level) -> CpuidTable {
        table(
            Frequency::from_hz(2_600_000_000).unwrap(),
            ALONE,
            &level.into(),
        )
    }

    #[test]
    fn several_processors_are_cores_of_one_package() {
        let frequency = Frequency::from_hz(2_600_000_000).unwrap();
        let of = |id, of| {
            table(
                frequency,
                ProcessorPosition { id, of },
                &InstructionSet::default(),
            )
        };
        for (count, bits, room) in [(2, 1, 2), (3, 2, 4), (32, 5, 32), (64, 6, 64)] {
            let last = of(count - 1, count);
            let [_, ebx, _, edx] = last.answer(1, 0);
            assert_eq!((ebx >> 24, ebx >> 16 & 0xff), (count - 1, room));
            assert_eq!(edx >> HYPER_THREADING & 1, 1);
            for leaf in [0xb, 0x1f] {
                assert!(last.answer(0, 0)[0] >= leaf);
                assert_eq!(last.answer(leaf, 0), [0, 1, 0x100, count - 1]);
                assert_eq!(last.answer(leaf, 1), [bits, count, 0x201, count - 1]);
            }
            assert_eq!(
                last.answer(4, 0)[0] >> 14 & 0xfff,
                0,
                "cores share no first level"
            );
            assert_eq!(last.answer(4, 3)[0] >> 14, (room - 1) * 0x1001);
        }
        let alone = of(0, 1);
        assert_eq!(alone.answer(1, 0)[3] >> HYPER_THREADING & 1, 0);
        assert_eq!(alone.answer(0xb, 1), [0, 1, 0x201, 0]);
        assert_eq!(alone.answer(0x1f, 0), [0; 4]);
    }

    #[test]
    fn linux_calculates_the_exact_frequency() {
        for rate in [2_600_000_000, 1_000_000, 4_294_967_000, 5_000_000_000] {
            let frequency = Frequency::from_hz(rate).unwrap();
            let table = table(frequency, ALONE, &InstructionSet::default());
            let [denominator, numerator, crystal, _] = table.answer(0x15, 0);
            // native_calibrate_tsc, in the kernel's 32-bit arithmetic.
            let khz = (crystal / 1000).checked_mul(numerator).unwrap() / denominator;
            assert_eq!(u64::from(khz) * 1000, rate);
        }
    }

    /// Names of the features that a table reports.
    fn promised(table: &CpuidTable) -> Vec<&'static str> {
        Feature::ALL
            .iter()
            .filter(|feature| {
                let place = feature.cpuid();
                let registers = table.answer(place.leaf, place.subleaf);
                registers[place.register as usize] >> place.bit & 1 == 1
            })
            .map(|feature| feature.name())
            .collect()
    }

    #[test]
    fn exactly_the_level_is_promised() {
        assert!(promised(&of(Level::V1)).is_empty());
        let second = [
            "sse3",
            "ssse3",
            "cmpxchg16b",
            "sse4.1",
            "sse4.2",
            "popcnt",
            "lahf",
        ];
        assert_eq!(promised(&of(Level::V2)), second);
        let third = of(Level::V3);
        assert_eq!(promised(&third).len(), second.len() + 11);
        assert!(!promised(&third).contains(&"avx512f"));
        let fourth = of(Level::V4);
        assert_eq!(promised(&fourth).len(), second.len() + 11 + 5);
        for (name, bit) in [("monitor", 3), ("pcid", 17), ("osxsave", 27)] {
            assert_eq!(fourth.answer(1, 0)[2] >> bit & 1, 0, "{name}");
        }
        assert_eq!(fourth.answer(7, 1), [0; 4]);
        let more = InstructionSet::new(Level::V2, ["aes", "sha"]).unwrap();
        let more = table(Frequency::from_hz(1_000_000).unwrap(), ALONE, &more);
        assert_eq!(promised(&more)[second.len()..], ["aes", "sha"]);
    }

    #[test]
    fn state_is_described_where_there_is_xsave() {
        assert_eq!(of(Level::V2).answer(0xd, 0), [0; 4]);
        assert_eq!(of(Level::V3).answer(0xd, 0), [0b111, 576, 832, 0]);
        assert_eq!(of(Level::V3).answer(0xd, 2), [256, 576, 0, 0]);
        assert_eq!(of(Level::V3).answer(0xd, 5), [0; 4]);
        let fourth = of(Level::V4);
        assert_eq!(fourth.answer(0xd, 0), [0b1110_0111, 576, 2688, 0]);
        // XSAVEOPT and XSAVEC, but neither XGETBV with ECX = 1 nor XSAVES.
        assert_eq!(fourth.answer(0xd, 1), [0b11, 576, 0, 0]);
        assert_eq!(fourth.answer(0xd, 7), [1024, 1664, 0, 0]);
    }

    #[test]
    fn signatures_spell() {
        let table = of(Level::V2);
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
