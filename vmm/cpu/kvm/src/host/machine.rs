//! A virtual machine: a node's memory, and the state that its processors share.
//!
//! KVM maps RAM at the addresses of the devices' and the tracer's mapping, and for the lifetime of
//! the machine. Accesses to model-specific registers that KVM does not emulate exit to the engine.
//! The engine's caller makes one per node; `vcpu` creates its processors.
#![allow(unsafe_code)]

use std::io;
use std::sync::Arc;

use belljar_cpu::{CpuError, GuestRam};
use kvm_bindings::{
    KVM_CAP_ENFORCE_PV_FEATURE_CPUID, KVM_CAP_X86_USER_SPACE_MSR, kvm_enable_cap,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{MsrExitReason, VcpuFd, VmFd};
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion};

use crate::host::Host;
use crate::host::msr;

/// Addresses at which Intel's processors without unrestricted guests keep a task state segment and
/// a page table for real mode: just below 4 GiB, where nodes have no devices.
const TSS_ADDRESS: usize = 0xfffb_d000;
const IDENTITY_MAP: u64 = 0xfffb_c000;

/// A virtual machine.
///
/// It has no interrupt controller, timer or clock of KVM: the node's own devices are used under
/// every engine, and their state consists of plain values.
#[derive(Debug)]
pub struct Machine {
    /// Must be dropped before the memory that it uses.
    vm: VmFd,
    pub(crate) ram: GuestRam,
    pub(crate) host: Arc<Host>,
}

impl Machine {
    /// The machine with `ram` as its memory.
    ///
    /// # Errors
    /// [`CpuError::Host`] if KVM refuses it.
    pub fn new(host: &Arc<Host>, ram: GuestRam) -> Result<Self, CpuError> {
        let vm = create(host).map_err(failed("create a virtual machine"))?;
        vm.set_identity_map_address(IDENTITY_MAP)
            .and_then(|()| vm.set_tss_address(TSS_ADDRESS))
            .map_err(failed("place the pages for real mode"))?;
        let reasons = MsrExitReason::Unknown | MsrExitReason::Inval | MsrExitReason::Filter;
        let capability = |cap, argument: u64| kvm_enable_cap {
            cap,
            args: [argument, 0, 0, 0],
            ..kvm_enable_cap::default()
        };
        vm.enable_cap(&capability(
            KVM_CAP_X86_USER_SPACE_MSR,
            reasons.bits().into(),
        ))
        .map_err(failed("have KVM hand on model-specific registers"))?;
        msr::filter(&vm).map_err(failed("choose the model-specific registers to hand on"))?;
        let machine = Self {
            vm,
            ram,
            host: host.clone(),
        };
        machine.register_memory()?;
        Ok(machine)
    }

    fn register_memory(&self) -> Result<(), CpuError> {
        for (slot, region) in (0..).zip(self.ram.iter()) {
            let place = kvm_userspace_memory_region {
                slot,
                flags: 0,
                guest_phys_addr: region.start_addr().0,
                memory_size: region.len(),
                userspace_addr: region.as_ptr() as u64,
            };
            // SAFETY: the range is the region's own mapping, which lives as long as `ram`, and the
            // virtual machine is dropped before it. Devices and the tracer access it as bytes that
            // the guest may change at any time.
            let placed = unsafe { self.vm.set_user_memory_region(place) };
            placed.map_err(failed("give the guest its memory"))?;
        }
        Ok(())
    }

    /// Creates processor `index`. KVM's own clock, hypercalls and the like are disabled for the
    /// guest.
    pub(crate) fn vcpu(&self, index: u32) -> Result<VcpuFd, CpuError> {
        let vcpu = self
            .vm
            .create_vcpu(index.into())
            .map_err(failed("create a virtual processor"))?;
        let plain = kvm_enable_cap {
            cap: KVM_CAP_ENFORCE_PV_FEATURE_CPUID,
            args: [1, 0, 0, 0],
            ..kvm_enable_cap::default()
        };
        vcpu.enable_cap(&plain)
            .map_err(failed("switch off what KVM offers besides a processor"))?;
        Ok(vcpu)
    }
}

/// Creates the machine. Retries if the timer signal of an earlier turn interrupts the call.
fn create(host: &Host) -> Result<VmFd, kvm_ioctls::Error> {
    loop {
        match host.kvm.create_vm() {
            Err(error) if error.errno() == libc::EINTR => {}
            other => return other,
        }
    }
}

/// Converts the host's error to an engine error.
pub(crate) fn failed<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> CpuError {
    move |error| CpuError::Host {
        action,
        source: error.into(),
    }
}
