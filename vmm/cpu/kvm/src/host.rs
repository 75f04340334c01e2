//! This host's KVM, and what it can do.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use belljar_cpu::CpuError;
use kvm_bindings::{CpuId, KVM_CAP_VCPU_ATTRIBUTES, KVM_MAX_CPUID_ENTRIES, KVM_SYNC_X86_REGS};
use kvm_ioctls::{Cap, Kvm};
use nix::unistd::{Gid, Group};

/// The device.
const DEVICE: &str = "/dev/kvm";
/// The version of the interface, the same since 2007.
const API_VERSION: i32 = 12;
/// What the kernel can take the time from, by name, with "tsc" among it as long as it
/// trusts the time stamp counter.
const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Why KVM is of no use here.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// There is no device.
    #[error(
        "there is no /dev/kvm: this machine has no hardware virtualisation, or it is switched off in its firmware, or the module kvm_intel or kvm_amd is not loaded; use engine = \"exact\""
    )]
    NoDevice,
    /// The device is not for this user.
    #[error(
        "/dev/kvm may not be used by this user; add the user to group {group} (sudo usermod -aG {group} USER, then log in again), or use engine = \"exact\""
    )]
    Permission {
        /// The group that may use it.
        group: String,
    },
    /// The device does not answer.
    #[error("/dev/kvm cannot be used: {0}; use engine = \"exact\"")]
    Device(#[from] io::Error),
    /// Another interface.
    #[error(
        "/dev/kvm speaks version {0} of its interface and not {API_VERSION}; use engine = \"exact\""
    )]
    Version(i32),
    /// Something is missing.
    #[error(
        "this host's KVM has no {name}, which came with Linux {since}; use a newer kernel or engine = \"exact\""
    )]
    Capability {
        /// Its name in the manual.
        name: &'static str,
        /// The kernel that has it.
        since: &'static str,
    },
    /// The time stamp counter is no clock. KVM then goes by one of its own: at each entry
    /// it sets the guest's counter anew, whatever it was told.
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

/// What the engine cannot do without.
const NEEDED: [(Cap, &str, &str); 9] = [
    (Cap::UserMemory, "KVM_CAP_USER_MEMORY", "2.6.25"),
    (Cap::SetGuestDebug, "KVM_CAP_SET_GUEST_DEBUG", "2.6.29"),
    (Cap::VcpuEvents, "KVM_CAP_VCPU_EVENTS", "2.6.33"),
    (Cap::Debugregs, "KVM_CAP_DEBUGREGS", "2.6.35"),
    (Cap::Xsave, "KVM_CAP_XSAVE", "2.6.36"),
    (Cap::Xcrs, "KVM_CAP_XCRS", "2.6.36"),
    (Cap::ImmediateExit, "KVM_CAP_IMMEDIATE_EXIT", "4.13"),
    (Cap::X86UserSpaceMsr, "KVM_CAP_X86_USER_SPACE_MSR", "5.10"),
    (Cap::X86MsrFilter, "KVM_CAP_X86_MSR_FILTER", "5.10"),
];

/// An open KVM.
#[derive(Debug)]
pub struct Host {
    pub(crate) kvm: Kvm,
    pub(crate) supported: CpuId,
    /// Whether guests' counters can be moved by their offset (Linux 5.16).
    pub(crate) has_tsc_offset: bool,
    /// Bytes that are mapped for each vCPU.
    pub(crate) page_bytes: usize,
}

impl Host {
    /// Opens the device and sees that everything is there which the engine needs. Whether
    /// it works is another question, which [`probe`](crate::probe) answers.
    ///
    /// # Errors
    /// [`HostError`] tells what is missing and what to do.
    pub fn open() -> Result<Arc<Self>, HostError> {
        let kvm = Kvm::new().map_err(|error| refusal(error.into()))?;
        let version = kvm.get_api_version();
        if version != API_VERSION {
            return Err(HostError::Version(version));
        }
        for (capability, name, since) in NEEDED {
            if !kvm.check_extension(capability) {
                return Err(HostError::Capability { name, since });
            }
        }
        let registers = kvm.check_extension_int(Cap::SyncRegs) as u32;
        if registers & KVM_SYNC_X86_REGS == 0 {
            let name = "KVM_CAP_SYNC_REGS";
            return Err(HostError::Capability {
                name,
                since: "4.17",
            });
        }
        // Where nothing is told, there is nothing to be said against it.
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

/// Whether the time stamp counter is in the kernel's list of clock sources.
fn trusts_tsc(sources: &str) -> bool {
    sources.split_whitespace().any(|source| source == "tsc")
}

fn refusal(error: io::Error) -> HostError {
    match error.kind() {
        io::ErrorKind::NotFound => HostError::NoDevice,
        io::ErrorKind::PermissionDenied => HostError::Permission {
            group: owning_group().unwrap_or_else(|| "kvm".to_owned()),
        },
        // The node is there, and nothing behind it.
        _ if error.raw_os_error() == Some(libc::ENODEV) => HostError::NoDevice,
        _ => HostError::Device(error),
    }
}

/// The name of the group that the device belongs to.
fn owning_group() -> Option<String> {
    let id = Gid::from_raw(fs::metadata(DEVICE).ok()?.gid());
    let group = Group::from_gid(id).ok()?;
    Some(group.map_or_else(|| id.to_string(), |group| group.name))
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
        assert!(told(libc::EACCES).contains("usermod -aG"));
        assert!(told(libc::EBUSY).contains("cannot be used"));
    }
}
