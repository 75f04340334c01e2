//! The answers of CPUID, in KVM's form.
//!
//! A guest gets the answers of the table, with two exceptions: RDRAND and RDSEED are hidden if the
//! host lacks them, and a leaf selects the preloaded library's magic instruction. `missing` names
//! features that KVM lacks before a guest begins. `vcpu` calls both functions when a vCPU is
//! created.

use belljar_abi::{DETECT_INT3, DETECT_LEAF};
use belljar_cpu::{CpuidBit, CpuidEntry, CpuidRegister, CpuidTable, Feature, InstructionSet};
use kvm_bindings::{CpuId, KVM_CPUID_FLAG_SIGNIFCANT_INDEX, kvm_cpuid_entry2};

use crate::host::breakpoints::Breakpoints;

/// Features in every guest's table that some hosts lack, or whose kernels disabled them as faulty;
/// guest kernels can do without.
const RANDOM: [CpuidBit; 2] = [
    bit(1, CpuidRegister::Ecx, 30),
    bit(7, CpuidRegister::Ebx, 18),
];

const fn bit(leaf: u32, register: CpuidRegister, bit: u32) -> CpuidBit {
    CpuidBit {
        leaf,
        subleaf: 0,
        register,
        bit,
    }
}

/// The table in KVM's form, on a host with the `supported` features. Leaves whose answers depend on
/// ECX are marked so; KVM itself fills in values that depend on CR4 and XCR0. A leaf selects the
/// traced library's magic instruction.
pub(crate) fn entries(
    table: &CpuidTable,
    breakpoints: Breakpoints,
    supported: &CpuId,
) -> Vec<kvm_cpuid_entry2> {
    let mut entries: Vec<_> = table.entries.iter().map(entry).collect();
    if breakpoints == Breakpoints::Int3 {
        let ours = entries.iter_mut().find(|one| one.function == DETECT_LEAF);
        ours.into_iter().for_each(|one| one.eax |= DETECT_INT3);
    }
    for place in RANDOM {
        if !offers(supported, place) {
            take_back(&mut entries, place);
        }
    }
    entries
}

/// Clears a bit.
fn take_back(entries: &mut [kvm_cpuid_entry2], place: CpuidBit) {
    let listed = entries
        .iter_mut()
        .find(|entry| entry.function == place.leaf && entry.index == place.subleaf);
    if let Some(entry) = listed {
        let register = match place.register {
            CpuidRegister::Eax => &mut entry.eax,
            CpuidRegister::Ebx => &mut entry.ebx,
            CpuidRegister::Ecx => &mut entry.ecx,
            CpuidRegister::Edx => &mut entry.edx,
        };
        *register &= !(1 << place.bit);
    }
}

fn entry(entry: &CpuidEntry) -> kvm_cpuid_entry2 {
    kvm_cpuid_entry2 {
        function: entry.leaf,
        index: entry.subleaf.unwrap_or(0),
        flags: match entry.subleaf {
            Some(_) => KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
            None => 0,
        },
        eax: entry.eax,
        ebx: entry.ebx,
        ecx: entry.ecx,
        edx: entry.edx,
        padding: [0; 3],
    }
}

/// The names of the features of `set` that are missing in `supported`, KVM's features on this host.
pub(crate) fn missing(set: &InstructionSet, supported: &CpuId) -> Vec<&'static str> {
    set.features()
        .filter(|feature| !offers(supported, feature.cpuid()))
        .map(Feature::name)
        .collect()
}

fn offers(supported: &CpuId, place: CpuidBit) -> bool {
    let listed = supported.as_slice().iter().find(|entry| {
        let indexed = entry.flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX != 0;
        entry.function == place.leaf && (!indexed || entry.index == place.subleaf)
    });
    listed.is_some_and(|entry| {
        let register = match place.register {
            CpuidRegister::Eax => entry.eax,
            CpuidRegister::Ebx => entry.ebx,
            CpuidRegister::Ecx => entry.ecx,
            CpuidRegister::Edx => entry.edx,
        };
        register >> place.bit & 1 == 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_cpu::Level;

    fn listed(leaf: u32, subleaf: Option<u32>, ebx: u32, ecx: u32) -> kvm_cpuid_entry2 {
        entry(&CpuidEntry {
            leaf,
            subleaf,
            eax: 0,
            ebx,
            ecx,
            edx: 0,
        })
    }

    #[test]
    fn the_library_is_told_how_to_call() {
        let leaf = CpuidEntry {
            leaf: DETECT_LEAF,
            subleaf: None,
            eax: belljar_abi::ABI_VERSION,
            ebx: 1,
            ecx: 2,
            edx: 3,
        };
        let table = CpuidTable {
            entries: vec![CpuidEntry { leaf: 1, ..leaf }, leaf],
        };
        let told = |breakpoints| {
            let supported = CpuId::from_entries(&[]).unwrap();
            let entries = entries(&table, breakpoints, &supported);
            entries.iter().map(|entry| entry.eax).collect::<Vec<_>>()
        };
        let version = belljar_abi::ABI_VERSION;
        assert_eq!(told(Breakpoints::Hardware), [version; 2]);
        assert_eq!(told(Breakpoints::Int3), [version, version | DETECT_INT3]);
    }

    #[test]
    fn what_the_host_cannot_do_for_a_guest_is_not_promised() {
        let leaf = |leaf, subleaf| CpuidEntry {
            leaf,
            subleaf,
            eax: u32::MAX,
            ebx: u32::MAX,
            ecx: u32::MAX,
            edx: u32::MAX,
        };
        let table = CpuidTable {
            entries: vec![leaf(1, None), leaf(7, Some(0)), leaf(7, Some(1))],
        };
        let promised = |supported: &[kvm_cpuid_entry2]| {
            let supported = CpuId::from_entries(supported).unwrap();
            let entries = entries(&table, Breakpoints::Hardware, &supported);
            [entries[0].ecx, entries[1].ebx, entries[2].ebx].map(|word| !word)
        };
        assert_eq!(promised(&[]), [1 << 30, 1 << 18, 0]);
        let all = [
            listed(1, None, 0, u32::MAX),
            listed(7, Some(0), u32::MAX, 0),
        ];
        assert_eq!(promised(&all), [0; 3]);
    }

    #[test]
    fn what_is_not_offered_is_named() {
        let all = u32::MAX;
        let with = |structured: u32| {
            CpuId::from_entries(&[
                listed(1, None, 0, all),
                listed(7, Some(1), all, all),
                listed(7, Some(0), structured, 0),
                listed(0x8000_0001, None, 0, all),
            ])
            .unwrap()
        };
        let set = InstructionSet::from(Level::V2);
        assert!(missing(&set, &with(0)).is_empty());
        let set = InstructionSet::new(Level::V2, ["sha"]).unwrap();
        assert_eq!(missing(&set, &with(0)), ["sha"]);
        assert!(missing(&set, &with(1 << 29)).is_empty());
    }
}
