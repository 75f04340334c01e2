//! Model-specific registers: those emulated by KVM, and exits for all others.
//!
//! The filter permits the guest to access the registers in `KEPT`, and to read the time stamp
//! counter; all other accesses exit. `machine` sets the filter; `saved` reads and writes the
//! registers that are part of a state.

use belljar_cpu::CpuError;
use kvm_bindings::{Msrs, kvm_msr_entry};
use kvm_ioctls::{MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, VcpuFd, VmFd};

/// The time stamp counter's register.
pub(crate) const MSR_TSC: u32 = 0x10;
/// First register and number of registers, for each range that a guest accesses without exits. The
/// time stamp counter is only readable. All others exit: the local APIC's, and nonexistent ones.
/// (Filters do not cover x2APIC registers: without its own interrupt controller, KVM treats them as
/// unknown.)
const KEPT: [(u32, u32); 12] = [
    (0xfe, 1),        // MTRR_CAP
    (0x174, 3),       // SYSENTER
    (0x1a0, 1),       // MISC_ENABLE
    (0x200, 16),      // variable MTRRs
    (0x250, 1),       // fixed MTRRs
    (0x258, 2),       // fixed MTRRs
    (0x268, 8),       // fixed MTRRs
    (0x277, 1),       // PAT
    (0x2ff, 1),       // MTRR_DEF_TYPE
    (0xc000_0080, 5), // EFER, STAR, LSTAR, CSTAR, SFMASK
    (0xc000_0100, 3), // FS, GS, KERNEL_GS
    (0xc000_0103, 1), // TSC_AUX
];
const ALLOWED: [u8; 2] = [0xff; 2];

/// Registers that only hold a value, in the order of saved states.
pub(crate) fn saved_msrs() -> impl Iterator<Item = u32> {
    let fixed = [0x250, 0x258, 0x259].into_iter().chain(0x268..=0x26f);
    (0x174..=0x176)
        .chain([0x1a0, 0x277, 0x2ff])
        .chain(0xc000_0081..=0xc000_0084)
        .chain([0xc000_0102, 0xc000_0103])
        .chain(0x200..=0x20f)
        .chain(fixed)
}

/// Makes accesses to all other registers exit.
///
/// # Errors
/// The host's error.
pub(crate) fn filter(vm: &VmFd) -> Result<(), kvm_ioctls::Error> {
    let range = |flags, (base, msr_count)| MsrFilterRange {
        flags,
        base,
        msr_count,
        bitmap: &ALLOWED,
    };
    let both = MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE;
    let mut ranges = vec![range(MsrFilterRangeFlags::READ, (MSR_TSC, 1))];
    ranges.extend(KEPT.map(|kept| range(both, kept)));
    vm.set_msr_filter(MsrFilterDefaultAction::DENY, &ranges)
}

/// Reads the [`saved_msrs`].
///
/// # Errors
/// [`CpuError::State`] names the register that KVM cannot read.
pub(crate) fn read(vcpu: &VcpuFd) -> Result<Vec<(u32, u64)>, CpuError> {
    let wanted: Vec<kvm_msr_entry> = saved_msrs().map(|index| entry(index, 0)).collect();
    let mut list = Msrs::from_entries(&wanted).map_err(|_| too_many())?;
    let read = vcpu
        .get_msrs(&mut list)
        .map_err(|error| refused(error.into()))?;
    if let Some(missing) = wanted.get(read) {
        return Err(missing_register(missing.index));
    }
    let entries = list.as_slice().iter();
    Ok(entries.map(|entry| (entry.index, entry.data)).collect())
}

/// Writes registers.
///
/// # Errors
/// [`CpuError::State`] names the register that KVM refuses to write.
pub(crate) fn write(vcpu: &VcpuFd, values: &[(u32, u64)]) -> Result<(), CpuError> {
    let entries: Vec<kvm_msr_entry> = values
        .iter()
        .map(|&(index, value)| entry(index, value))
        .collect();
    let list = Msrs::from_entries(&entries).map_err(|_| too_many())?;
    let written = vcpu
        .set_msrs(&list)
        .map_err(|error| refused(error.into()))?;
    match values.get(written) {
        Some((missing, _)) => Err(missing_register(*missing)),
        None => Ok(()),
    }
}

fn entry(index: u32, data: u64) -> kvm_msr_entry {
    kvm_msr_entry {
        index,
        data,
        ..kvm_msr_entry::default()
    }
}

fn refused(source: std::io::Error) -> CpuError {
    CpuError::Host {
        action: "reach the guest's model-specific registers",
        source,
    }
}

fn missing_register(index: u32) -> CpuError {
    CpuError::State(format!("KVM does not keep MSR {index:#x} as it is"))
}

fn too_many() -> CpuError {
    CpuError::Internal("more registers than fit a list".to_owned())
}
