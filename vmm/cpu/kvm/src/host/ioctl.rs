//! The few calls of KVM that kvm-ioctls lacks on x86, and the host's clocks.
//!
//! Each call returns the host's error; its callers `vcpu`, `tsc`, `saved` and `host` interpret it.
//! Every call made by threads that run vCPUs must be in `RUNNING_IOCTLS`, because the sandbox
//! denies all others.
#![allow(unsafe_code)]

use std::io;

use kvm_bindings::{
    KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, KVMIO, kvm_device_attr, kvm_interrupt, kvm_xsave,
};
use kvm_ioctls::VcpuFd;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

ioctl_iow_nr!(KVM_INTERRUPT, KVMIO, 0x86, kvm_interrupt);
ioctl_iow_nr!(KVM_SET_DEVICE_ATTR, KVMIO, 0xe1, kvm_device_attr);
#[cfg(test)]
ioctl_iow_nr!(KVM_HAS_DEVICE_ATTR, KVMIO, 0xe3, kvm_device_attr);

/// Calls that threads running vCPUs make, by the low 16 bits of their numbers, for the sandbox's
/// filter: `KVM_RUN`, registers, `KVM_TRANSLATE`, `KVM_INTERRUPT`, model-specific registers,
/// `KVM_NMI`, `KVM_SET_GUEST_DEBUG`, events, debug registers, XSAVE areas, XCR0, and the time stamp
/// counter's offset.
pub const RUNNING_IOCTLS: [u32; 17] = [
    0xae80, 0xae81, 0xae82, 0xae83, 0xae84, 0xae85, 0xae86, 0xae88, 0xae89, 0xae9a, 0xae9b, 0xae9f,
    0xaea0, 0xaea1, 0xaea4, 0xaea6, 0xaee1,
];

/// The result of a call that returns zero on success.
fn checked(result: i32) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Queues the external interrupt `vector`, which is delivered when the guest continues.
pub(crate) fn interrupt(vcpu: &VcpuFd, vector: u8) -> io::Result<()> {
    let interrupt = kvm_interrupt { irq: vector.into() };
    // SAFETY: the kernel reads the structure, which has the call's type, and accesses nothing else.
    checked(unsafe { ioctl_with_ref(vcpu, KVM_INTERRUPT(), &interrupt) })
}

fn tsc_offset_attribute(offset: &u64) -> kvm_device_attr {
    kvm_device_attr {
        flags: 0,
        group: KVM_VCPU_TSC_CTRL,
        attr: KVM_VCPU_TSC_OFFSET.into(),
        addr: std::ptr::from_ref(offset) as u64,
    }
}

/// Sets the difference between the guest's time stamp counter and the host's, modulo 2^64.
pub(crate) fn set_tsc_offset(vcpu: &VcpuFd, offset: u64) -> io::Result<()> {
    let attribute = tsc_offset_attribute(&offset);
    // SAFETY: the kernel reads the structure and the eight bytes at its address, which
    // outlive the call.
    checked(unsafe { ioctl_with_ref(vcpu, KVM_SET_DEVICE_ATTR(), &attribute) })
}

/// True if [`set_tsc_offset`] is available (Linux 5.16).
#[cfg(test)]
pub(crate) fn has_tsc_offset(vcpu: &VcpuFd) -> bool {
    let attribute = tsc_offset_attribute(&0);
    // SAFETY: as in `set_tsc_offset`; this call does not read the address.
    checked(unsafe { ioctl_with_ref(vcpu, KVM_HAS_DEVICE_ATTR(), &attribute) }).is_ok()
}

/// Replaces the vCPU's XSAVE area.
pub(crate) fn set_xsave(vcpu: &VcpuFd, area: &kvm_xsave) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the guest's state has. They exceed the structure
    // only for state that a process must request by arch_prctl, which this one never does.
    Ok(unsafe { vcpu.set_xsave(area) }?)
}

/// The host's time stamp counter.
pub(crate) fn host_tsc() -> u64 {
    // SAFETY: every x86-64 processor has it, and Linux permits it to all processes.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The host's processor time of this thread in nanoseconds.
pub(crate) fn thread_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel only writes the given structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
