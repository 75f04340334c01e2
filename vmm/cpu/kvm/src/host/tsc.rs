//! Adjusting a guest's time stamp counter.
//!
//! Either way, the counter then shows the host's plus an offset, modulo 2^64. `vcpu` sets it at
//! each entry to the virtual clock; `means` chooses the way.

use belljar_cpu::CpuError;
use kvm_ioctls::VcpuFd;

use crate::host::ioctl;
use crate::host::machine::failed;
use crate::host::msr::{self, MSR_TSC};
use crate::host::{Host, HostError};

/// The way to adjust a guest's time stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TscControl {
    /// By its offset from the host's (`KVM_VCPU_TSC_OFFSET`, since Linux 5.16).
    Offset,
    /// By writing the counter itself (`IA32_TSC`), which every KVM supports.
    Register,
}

impl TscControl {
    /// The way to adjust counters on `host`: `wanted`, or the best one.
    ///
    /// # Errors
    /// [`HostError::Capability`] if offsets are wanted and the host lacks them.
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

    /// Sets the guest's counter to `offset` ahead of the host's, modulo 2^64.
    ///
    /// # Errors
    /// The host's error.
    pub(crate) fn set(self, vcpu: &VcpuFd, offset: u64) -> Result<(), CpuError> {
        match self {
            Self::Offset => ioctl::set_tsc_offset(vcpu, offset)
                .map_err(failed("move the guest's time stamp counter")),
            // KVM takes a write close to the counter's present value for an attempt to synchronise
            // processors, and ignores it: so write a distant value first.
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
