//! How a guest's time stamp counter is moved.
//!
//! Whichever it is, the counter then shows the host's plus an offset, modulo 2^64. `vcpu` sets it
//! on each entry to where the virtual clock stands; `means` chooses.

use belljar_cpu::CpuError;
use kvm_ioctls::VcpuFd;

use crate::host::ioctl;
use crate::host::machine::failed;
use crate::host::msr::{self, MSR_TSC};
use crate::host::{Host, HostError};

/// How a guest's time stamp counter is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TscControl {
    /// By how much it is ahead of the host's (`KVM_VCPU_TSC_OFFSET`, since Linux 5.16).
    Offset,
    /// By writing the counter itself (`IA32_TSC`), which every KVM can.
    Register,
}

impl TscControl {
    /// What moves counters on `host`: `wanted`, or what it does best.
    ///
    /// # Errors
    /// [`HostError::Capability`] where offsets are wanted and the host has none.
    pub(crate) fn on(host: &Host, wanted: Option<Self>) -> Result<Self, HostError> {
        match wanted {
            Some(Self::Offset) if !host.has_tsc_offset => Err(HostError::Capability {
                name: "KVM_CAP_VCPU_ATTRIBUTES",
                since: "5.16",
            }),
            Some(wanted) => Ok(wanted),
            None if host.has_tsc_offset => Ok(Self::Offset),
            None => Ok(Self::Register),
        }
    }

    /// Moves the guest's counter to `offset` ahead of the host's, modulo 2^64.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn set(self, vcpu: &VcpuFd, offset: u64) -> Result<(), CpuError> {
        match self {
            Self::Offset => ioctl::set_tsc_offset(vcpu, offset)
                .map_err(failed("move the guest's time stamp counter")),
            // KVM takes a write near to what the counter shows for an attempt to bring
            // processors into step, and does nothing: so there is one far from it before.
            Self::Register => [1 << 62, 0].into_iter().try_for_each(|far: u64| {
                let value = ioctl::host_tsc().wrapping_add(offset).wrapping_add(far);
                msr::write(vcpu, &[(MSR_TSC, value)])
            }),
        }
    }
}

impl std::fmt::Display for TscControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Offset => "its offset",
            Self::Register => "IA32_TSC",
        })
    }
}
