//! This host's KVM and its capabilities.
//!
//! A `Host` exists only if the interface has the right version and every capability in `NEEDED`,
//! and the time stamp counter is a clock source. Otherwise the error names the missing item and a
//! remedy. `probe` and the creator of machines open it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use belljar_cpu::CpuError;
use kvm_bindings::{CpuId, KVM_CAP_VCPU_ATTRIBUTES, KVM_MAX_CPUID_ENTRIES, KVM_SYNC_X86_REGS};
use kvm_ioctls::{Cap, Kvm};
use nix::unistd::{Gid, Group};

/// Breakpoints at magic instructions.
pub(crate) mod breakpoints;
/// Calls of KVM that kvm-ioctls lacks, and the host's clocks.
pub(crate) mod ioctl;
/// A node's memory under KVM.
pub(crate) mod machine;
/// The choice between alternative mechanisms of a host.
pub(crate) mod means;
/// Model-specific registers that KVM emulates.
pub(crate) mod msr;
/// Adjusting a guest's time stamp counter.
pub(crate) mod tsc;

/// The device.
const DEVICE: &str = "/dev/kvm";
/// The version of the interface, the same since 2007.
const API_VERSION: i32 = 12;
/// The kernel's available clock sources, by name. The list has "tsc" as long as the kernel trusts
/// the time stamp counter.
const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Errors of a host without usable KVM.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The device does not exist.
    #[error(
        "there is no /dev/kvm: this machine has no hardware virtualisation, or it is switched off in its firmware, or the module kvm_intel or kvm_amd is not loaded; use engine = \"exact\""
    )]
    NoDevice,
    /// The user may not open the device, but a group has access, which the user may join.
    #[error(
        "/dev/kvm may not be used by this user; add the user to group {group} (sudo usermod -aG {group} USER, then log in again), or use engine = \"exact\""
    )]
    Permission {
        /// The group with access.
        group: String,
    },
    /// Only the administrator may open the device.
    #[error(
        "/dev/kvm may be used by no group that users belong to (it is group {group}'s, with mode {mode:04o}); give it to group kvm (sudo chgrp kvm /dev/kvm && sudo chmod 0660 /dev/kvm) and the user to that group (sudo usermod -aG kvm USER, then log in again), or use engine = \"exact\""
    )]
    Closed {
        /// The group of the device.
        group: String,
        /// The bits of its mode.
        mode: u32,
    },
    /// The device returns an error.
    #[error("/dev/kvm cannot be used: {0}; use engine = \"exact\"")]
    Device(#[from] io::Error),
    /// The interface has another version.
    #[error(
        "/dev/kvm speaks version {0} of its interface and not {API_VERSION}; use engine = \"exact\""
    )]
    Version(i32),
    /// A capability is missing.
    #[error(
        "this host's KVM has no {name}, which came with Linux {since}; use a newer kernel or engine = \"exact\""
    )]
    Capability {
        /// Its name in the manual.
        name: &'static str,
        /// The first kernel version that has it.
        since: &'static str,
    },
    /// The kernel does not trust the time stamp counter. KVM then uses a clock of its own, and
    /// resets the guest's counter at each entry, overriding this engine's values.
    #[error(
        "this host's kernel does not trust its time stamp counter (it is not among {sources}; the kernel's log says why), so that no guest's time can be kept; boot the host with tsc=reliable if the counters of its processors do run alike, or use engine = \"exact\"",
        sources = CLOCK_SOURCES
    )]
    UnstableClock,
}

impl From<HostError> for CpuError {
    fn from(error: HostError) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// Any nonzero answer of a capability.
const ANY: u32 = u32::MAX;
/// Required capabilities: a mask that the answer must share a bit with, the name, and the first
/// kernel version with it.
const NEEDED: [(Cap, u32, &str, &str); 10] = [
    (Cap::UserMemory, ANY, "KVM_CAP_USER_MEMORY", "2.6.25"),
    (Cap::SetGuestDebug, ANY, "KVM_CAP_SET_GUEST_DEBUG", "2.6.29"),
    (Cap::VcpuEvents, ANY, "KVM_CAP_VCPU_EVENTS", "2.6.33"),
    (Cap::Debugregs, ANY, "KVM_CAP_DEBUGREGS", "2.6.35"),
    (Cap::Xsave, ANY, "KVM_CAP_XSAVE", "2.6.36"),
    (Cap::Xcrs, ANY, "KVM_CAP_XCRS", "2.6.36"),
    (Cap::ImmediateExit, ANY, "KVM_CAP_IMMEDIATE_EXIT", "4.13"),
    (
        Cap::SyncRegs,
        KVM_SYNC_X86_REGS,
        "KVM_CAP_SYNC_REGS",
        "4.17",
    ),
    (
        Cap::X86UserSpaceMsr,
        ANY,
        "KVM_CAP_X86_USER_SPACE_MSR",
        "5.10",
    ),
    (Cap::X86MsrFilter, ANY, "KVM_CAP_X86_MSR_FILTER", "5.10"),
];

/// An open KVM.
#[derive(Debug)]
pub struct Host {
    pub(crate) kvm: Kvm,
    pub(crate) supported: CpuId,
    /// True if guests' counters can be adjusted by their offset (Linux 5.16).
    pub(crate) has_tsc_offset: bool,
    /// Size of each vCPU's shared mapping in bytes.
    pub(crate) page_bytes: usize,
}

impl Host {
    /// Opens the device and checks all required capabilities. [`probe`](crate::probe) checks that
    /// guests actually run.
    ///
    /// # Errors
    /// [`HostError`] names the missing item and the remedy.
    pub fn open() -> Result<Arc<Self>, HostError> {
        let kvm = Kvm::new().map_err(|error| refusal(error.into()))?;
        let version = kvm.get_api_version();
        if version != API_VERSION {
            return Err(HostError::Version(version));
        }
        let answer = |capability| u32::try_from(kvm.check_extension_int(capability));
        has_all(|capability| answer(capability).unwrap_or(0))?;
        // If the list cannot be read, the counter is assumed to be usable.
        if fs::read_to_string(CLOCK_SOURCES).is_ok_and(|told| !trusts_tsc(&told)) {
            return Err(HostError::UnstableClock);
        }
        let supported = kvm
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .map_err(io::Error::from)?;
        let page_bytes = kvm.get_vcpu_mmap_size().map_err(io::Error::from)?;
        let attributes = kvm.check_extension_raw(KVM_CAP_VCPU_ATTRIBUTES.into());
        Ok(Arc::new(Self {
            kvm,
            supported,
            has_tsc_offset: attributes > 0,
            page_bytes,
        }))
    }
}

/// Checks the required capabilities by KVM's `answer` for each.
fn has_all(answer: impl Fn(Cap) -> u32) -> Result<(), HostError> {
    let missing = NEEDED
        .into_iter()
        .find(|&(capability, bits, ..)| answer(capability) & bits == 0);
    missing.map_or(Ok(()), |(_, _, name, since)| {
        Err(HostError::Capability { name, since })
    })
}

/// True if the time stamp counter is in the kernel's list of clock sources.
fn trusts_tsc(sources: &str) -> bool {
    sources.split_whitespace().any(|source| source == "tsc")
}

fn refusal(error: io::Error) -> HostError {
    match error.kind() {
        io::ErrorKind::NotFound => HostError::NoDevice,
        io::ErrorKind::PermissionDenied => match owner() {
            Some((group, mode)) => forbidden(group, mode),
            None => HostError::Device(error),
        },
        // The device node exists without a driver.
        _ if error.raw_os_error() == Some(libc::ENODEV) => HostError::NoDevice,
        _ => HostError::Device(error),
    }
}

/// The device's group, by name, and the device's mode.
fn owner() -> Option<(String, u32)> {
    let device = fs::metadata(DEVICE).ok()?;
    let id = Gid::from_raw(device.gid());
    let group = Group::from_gid(id).ok()?;
    let name = group.map_or_else(|| id.to_string(), |group| group.name);
    Some((name, device.mode() & 0o7777))
}

/// The error for a user who may not open a device of this group and mode.
fn forbidden(group: String, mode: u32) -> HostError {
    const GROUP_READS_AND_WRITES: u32 = 0o060;
    if mode & GROUP_READS_AND_WRITES == GROUP_READS_AND_WRITES && group != "root" {
        HostError::Permission { group }
    } else {
        HostError::Closed { group, mode }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_the_kernel_left_off_the_list_is_not_trusted() {
        assert!(trusts_tsc("kvm-clock tsc acpi_pm \n"));
        assert!(!trusts_tsc("hpet acpi_pm \n"));
        assert!(!trusts_tsc("tsc-early hpet\n"));
    }

    #[test]
    fn refusals_say_what_to_do() {
        let told = |number| refusal(io::Error::from_raw_os_error(number)).to_string();
        assert!(told(libc::ENOENT).contains("no /dev/kvm"));
        assert!(told(libc::ENODEV).contains("no /dev/kvm"));
        assert!(told(libc::EBUSY).contains("cannot be used"));
    }

    #[test]
    fn nobody_is_told_to_join_a_group_that_has_no_rights() {
        let told = |group: &str, mode| forbidden(group.to_owned(), mode).to_string();
        assert!(told("kvm", 0o660).contains("sudo usermod -aG kvm USER"));
        assert!(told("104", 0o666).contains("sudo usermod -aG 104 USER"));
        let closed = told("root", 0o600);
        assert!(closed.contains("group root's, with mode 0600"), "{closed}");
        assert!(!closed.contains("-aG root"), "{closed}");
        assert!(!told("root", 0o660).contains("-aG root"));
        assert!(told("kvm", 0o600).contains("chmod 0660"));
    }

    #[test]
    fn what_kvm_lacks_is_named_with_the_kernel_that_has_it() {
        assert!(has_all(|_| 1).is_ok());
        for (_, _, name, since) in NEEDED {
            let lacks = |capability: Cap| {
                let this = NEEDED.iter().find(|one| one.0 as u32 == capability as u32);
                u32::from(this.is_none_or(|one| one.2 != name))
            };
            let told = has_all(lacks).unwrap_err().to_string();
            assert!(told.contains(&format!("no {name}, ")), "{told}");
            assert!(told.contains(&format!("Linux {since};")), "{told}");
        }
        // Some registers, but not the general ones.
        let others = |capability: Cap| match capability {
            Cap::SyncRegs => ANY & !KVM_SYNC_X86_REGS,
            _ => 1,
        };
        let told = has_all(others).unwrap_err().to_string();
        assert!(told.contains("KVM_CAP_SYNC_REGS"), "{told}");
    }
}
