//! The page that KVM shares with this process for each vCPU, read and written as plain values.
//!
//! All `unsafe` reads of the union that KVM fills are here; the addresses of a transfer's items are
//! checked to lie in the mapping. `vcpu` calls this after each run, and to answer exits.
#![allow(unsafe_code)]

use kvm_bindings::{
    KVM_EXIT_DEBUG, KVM_EXIT_EXCEPTION, KVM_EXIT_FAIL_ENTRY, KVM_EXIT_HLT, KVM_EXIT_INTERNAL_ERROR,
    KVM_EXIT_INTR, KVM_EXIT_IO, KVM_EXIT_IO_IN, KVM_EXIT_IRQ_WINDOW_OPEN, KVM_EXIT_MMIO,
    KVM_EXIT_SET_TPR, KVM_EXIT_SHUTDOWN, KVM_EXIT_X86_RDMSR, KVM_EXIT_X86_WRMSR, kvm_run,
};

use crate::exits::decode::{Io, RawExit};

/// The exit that `run` describes.
pub(crate) fn raw_exit(run: &kvm_run) -> RawExit {
    let union = &run.__bindgen_anon_1;
    // SAFETY: the kernel wrote the member that belongs to the exit reason, and every
    // member is valid for any bytes.
    unsafe {
        match run.exit_reason {
            KVM_EXIT_IO => RawExit::Io(Io {
                input: u32::from(union.io.direction) == KVM_EXIT_IO_IN,
                port: union.io.port,
                size: union.io.size,
                count: union.io.count,
                done: 0,
            }),
            KVM_EXIT_MMIO if union.mmio.is_write != 0 => RawExit::MmioWrite {
                address: union.mmio.phys_addr,
                len: union.mmio.len,
                data: u64::from_le_bytes(union.mmio.data),
            },
            KVM_EXIT_MMIO => RawExit::MmioRead {
                address: union.mmio.phys_addr,
                len: union.mmio.len,
            },
            KVM_EXIT_X86_RDMSR => RawExit::ReadMsr {
                index: union.msr.index,
            },
            KVM_EXIT_X86_WRMSR => RawExit::WriteMsr {
                index: union.msr.index,
                value: union.msr.data,
            },
            KVM_EXIT_HLT => RawExit::Halt,
            KVM_EXIT_DEBUG => RawExit::Debug {
                exception: union.debug.arch.exception,
                at: union.debug.arch.pc,
            },
            KVM_EXIT_EXCEPTION => RawExit::Exception {
                vector: union.ex.exception,
            },
            KVM_EXIT_IRQ_WINDOW_OPEN => RawExit::Window,
            KVM_EXIT_SET_TPR => RawExit::TaskPriority,
            KVM_EXIT_SHUTDOWN => RawExit::Shutdown,
            KVM_EXIT_INTR => RawExit::Interrupted,
            KVM_EXIT_INTERNAL_ERROR => RawExit::NotEmulated {
                suberror: union.internal.suberror,
            },
            KVM_EXIT_FAIL_ENTRY => RawExit::Refused {
                reason: union.fail_entry.hardware_entry_failure_reason,
            },
            other => RawExit::Unexpected(other),
        }
    }
}

/// Item `number` of the transfer that `run` describes, of `size` bytes; the mapping has
/// `page_bytes` from `run` on.
pub(crate) fn io_item(run: &mut kvm_run, page_bytes: usize, number: u32, size: u8) -> u32 {
    let Some(at) = io_place(run, page_bytes, number, size) else {
        return 0;
    };
    let mut bytes = [0; 4];
    // SAFETY: the item lies in the mapping that begins at `run`, and no other reference to it
    // exists while `run` is borrowed.
    unsafe { std::ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), usize::from(size)) };
    u32::from_le_bytes(bytes)
}

/// Answers item `number` of an input.
pub(crate) fn put_io_item(run: &mut kvm_run, page_bytes: usize, number: u32, size: u8, data: u32) {
    if let Some(at) = io_place(run, page_bytes, number, size) {
        let bytes = data.to_le_bytes();
        // SAFETY: as in `io_item`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, usize::from(size)) };
    }
}

fn io_place(run: &mut kvm_run, page_bytes: usize, number: u32, size: u8) -> Option<*mut u8> {
    // SAFETY: any bytes are valid for this member; its value is checked.
    let first = usize::try_from(unsafe { run.__bindgen_anon_1.io.data_offset }).ok()?;
    let at = first.checked_add(number as usize * usize::from(size))?;
    let fits = size <= 4 && at.checked_add(usize::from(size))? <= page_bytes;
    // SAFETY: checked to lie within the mapping, which begins at `run`.
    fits.then(|| unsafe { std::ptr::from_mut(run).cast::<u8>().add(at) })
}

/// Answers a load.
pub(crate) fn put_mmio(run: &mut kvm_run, data: u64) {
    run.__bindgen_anon_1.mmio.data = data.to_le_bytes();
}

/// Answers a `RDMSR`.
pub(crate) fn put_msr(run: &mut kvm_run, data: u64) {
    run.__bindgen_anon_1.msr.data = data;
    run.__bindgen_anon_1.msr.error = 0;
}

/// Makes a `RDMSR` or `WRMSR` fault.
pub(crate) fn refuse_msr(run: &mut kvm_run) {
    run.__bindgen_anon_1.msr.error = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with room after the structure, with KVM's layout.
    #[repr(C)]
    struct Mapped {
        run: kvm_run,
        data: [u8; 4096],
    }

    fn mapped() -> Box<Mapped> {
        Box::new(Mapped {
            run: kvm_run::default(),
            data: [0; 4096],
        })
    }

    #[test]
    fn items_stay_within_the_page() {
        let mut page = mapped();
        let bytes = size_of::<Mapped>();
        let offset = std::mem::offset_of!(Mapped, data);
        page.run.exit_reason = KVM_EXIT_IO;
        page.run.__bindgen_anon_1.io.data_offset = offset as u64;
        // As for the kernel's page, the pointer comes from the mapping, not from the field.
        let run = std::ptr::from_mut(&mut *page).cast::<kvm_run>();
        // SAFETY: the structure is the mapping's beginning.
        let run = unsafe { &mut *run };
        put_io_item(run, bytes, 1, 2, 0xaabb_ccdd);
        assert_eq!(io_item(run, bytes, 1, 2), 0xccdd);
        assert_eq!(io_item(run, bytes, 0, 4), 0xccdd_0000);
        assert!(io_place(run, bytes, 2047, 2).is_some());
        assert!(io_place(run, bytes, 2048, 2).is_none());
        assert!(io_place(run, bytes, 1023, 4).is_some());
        assert!(io_place(run, bytes, 0, 5).is_none());
        run.__bindgen_anon_1.io.data_offset = u64::MAX;
        put_io_item(run, bytes, 0, 1, 1);
        assert_eq!(io_item(run, bytes, 0, 1), 0);
    }
}
