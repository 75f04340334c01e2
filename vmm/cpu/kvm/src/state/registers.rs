//! Registers in KVM's form and in Belljar's.
//!
//! Conversion to KVM and back preserves all values, except a granularity that the limit leaves
//! open, which becomes one that processors accept. `interface` and `saved` use these functions;
//! this module does not call KVM.

use belljar_cpu::{DescriptorTable, Registers, Segment, SegmentRegister, SystemRegisters};
use kvm_bindings::{kvm_dtable, kvm_regs, kvm_segment, kvm_sregs};

/// Bits of [`Segment::attributes`], at their positions in a descriptor.
mod attribute {
    pub(super) const SYSTEM: u32 = 4;
    pub(super) const PRIVILEGE: u32 = 5;
    pub(super) const PRESENT: u32 = 7;
    pub(super) const AVAILABLE: u32 = 12;
    pub(super) const LONG: u32 = 13;
    pub(super) const BIG: u32 = 14;
    pub(super) const GRANULAR: u32 = 15;
}

/// True if user code is running: SS has the current privilege level.
pub(crate) fn is_user(system: &SystemRegisters) -> bool {
    system.segments[SegmentRegister::Ss as usize].attributes >> attribute::PRIVILEGE & 3 == 3
}

/// General registers from KVM's.
pub(crate) fn registers(kvm: &kvm_regs) -> Registers {
    Registers {
        gpr: [
            kvm.rax, kvm.rcx, kvm.rdx, kvm.rbx, kvm.rsp, kvm.rbp, kvm.rsi, kvm.rdi, kvm.r8, kvm.r9,
            kvm.r10, kvm.r11, kvm.r12, kvm.r13, kvm.r14, kvm.r15,
        ],
        rip: kvm.rip,
        rflags: kvm.rflags,
    }
}

/// General registers to KVM's.
pub(crate) fn kvm_registers(registers: &Registers) -> kvm_regs {
    let [
        rax,
        rcx,
        rdx,
        rbx,
        rsp,
        rbp,
        rsi,
        rdi,
        r8,
        r9,
        r10,
        r11,
        r12,
        r13,
        r14,
        r15,
    ] = registers.gpr;
    kvm_regs {
        rax,
        rbx,
        rcx,
        rdx,
        rsi,
        rdi,
        rsp,
        rbp,
        r8,
        r9,
        r10,
        r11,
        r12,
        r13,
        r14,
        r15,
        rip: registers.rip,
        rflags: registers.rflags | 2,
    }
}

/// Segments, tables and control registers from KVM's.
pub(crate) fn system(kvm: &kvm_sregs) -> SystemRegisters {
    let mut segments = [Segment::default(); 8];
    let listed = [
        (SegmentRegister::Es, &kvm.es),
        (SegmentRegister::Cs, &kvm.cs),
        (SegmentRegister::Ss, &kvm.ss),
        (SegmentRegister::Ds, &kvm.ds),
        (SegmentRegister::Fs, &kvm.fs),
        (SegmentRegister::Gs, &kvm.gs),
        (SegmentRegister::Tr, &kvm.tr),
        (SegmentRegister::Ldt, &kvm.ldt),
    ];
    for (place, from) in listed {
        segments[place as usize] = segment(from);
    }
    SystemRegisters {
        segments,
        gdt: table(&kvm.gdt),
        idt: table(&kvm.idt),
        cr0: kvm.cr0,
        cr2: kvm.cr2,
        cr3: kvm.cr3,
        cr4: kvm.cr4,
        efer: kvm.efer,
    }
}

/// Copies segments, tables and control registers into KVM's, and keeps the other fields.
pub(crate) fn put_system(system: &SystemRegisters, kvm: &mut kvm_sregs) {
    let segment = |place: SegmentRegister| kvm_segment_of(&system.segments[place as usize]);
    kvm.es = segment(SegmentRegister::Es);
    kvm.cs = segment(SegmentRegister::Cs);
    kvm.ss = segment(SegmentRegister::Ss);
    kvm.ds = segment(SegmentRegister::Ds);
    kvm.fs = segment(SegmentRegister::Fs);
    kvm.gs = segment(SegmentRegister::Gs);
    kvm.tr = segment(SegmentRegister::Tr);
    kvm.ldt = segment(SegmentRegister::Ldt);
    kvm.gdt = kvm_table(&system.gdt);
    kvm.idt = kvm_table(&system.idt);
    kvm.cr0 = system.cr0;
    kvm.cr2 = system.cr2;
    kvm.cr3 = system.cr3;
    kvm.cr4 = system.cr4;
    kvm.efer = system.efer;
}

fn segment(kvm: &kvm_segment) -> Segment {
    use attribute::*;
    let bit = |value: u8, place: u32| u16::from(value & 1) << place;
    // KVM reports an unusable segment as not present, too.
    let present = kvm.present & u8::from(kvm.unusable == 0);
    Segment {
        selector: kvm.selector,
        base: kvm.base,
        limit: kvm.limit,
        attributes: u16::from(kvm.type_ & 0xf)
            | bit(kvm.s, SYSTEM)
            | u16::from(kvm.dpl & 3) << PRIVILEGE
            | bit(present, PRESENT)
            | bit(kvm.avl, AVAILABLE)
            | bit(kvm.l, LONG)
            | bit(kvm.db, BIG)
            | bit(kvm.g, GRANULAR),
    }
}

fn kvm_segment_of(segment: &Segment) -> kvm_segment {
    use attribute::*;
    let bit = |place: u32| (segment.attributes >> place & 1) as u8;
    let granular = granularity(segment.limit).unwrap_or(bit(GRANULAR));
    kvm_segment {
        base: segment.base,
        limit: segment.limit,
        selector: segment.selector,
        type_: (segment.attributes & 0xf) as u8,
        present: bit(PRESENT),
        dpl: (segment.attributes >> PRIVILEGE & 3) as u8,
        db: bit(BIG),
        s: bit(SYSTEM),
        l: bit(LONG),
        g: granular,
        avl: bit(AVAILABLE),
        unusable: 1 - bit(PRESENT),
        padding: 0,
    }
}

/// The granularity that a segment of `limit` bytes must have, `None` if both are valid: Intel's
/// processors refuse to enter a guest with a wrong one (SDM volume 3, "Checks on Guest Segment
/// Registers"). A null stack segment, which may have any limit, has granularity zero.
fn granularity(limit: u32) -> Option<u8> {
    const WHOLE_PAGES: u32 = 0xfff;
    const BY_BYTES: u32 = 0xf_ffff;
    if limit > BY_BYTES {
        Some(1)
    } else if limit & WHOLE_PAGES != WHOLE_PAGES {
        Some(0)
    } else {
        None
    }
}

fn table(kvm: &kvm_dtable) -> DescriptorTable {
    DescriptorTable {
        base: kvm.base,
        limit: kvm.limit,
    }
}

fn kvm_table(table: &DescriptorTable) -> kvm_dtable {
    kvm_dtable {
        base: table.base,
        limit: table.limit,
        ..kvm_dtable::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_come_back_as_they_went() {
        let mut before = Registers {
            rip: 0x1234,
            rflags: 0x246,
            ..Registers::default()
        };
        before.gpr = std::array::from_fn(|index| 0x100 + index as u64);
        assert_eq!(registers(&kvm_registers(&before)), before);
        assert_eq!(kvm_registers(&before).rsi, 0x106);
    }

    /// SS in the form after an interrupt from user code in 64-bit mode.
    #[test]
    fn a_limit_has_the_granularity_that_it_needs() {
        let of = |limit, attributes| {
            let segment = Segment {
                limit,
                attributes,
                ..Segment::default()
            };
            kvm_segment_of(&segment).g
        };
        assert_eq!(of(u32::MAX, 0x4093), 1);
        assert_eq!(of(0, 0xc093), 0);
        assert_eq!((of(0xffff, 0x93), of(0xffff, 0x8093)), (0, 1));
        assert_eq!((of(0x67, 0x8b), of(u32::MAX, 0xc093)), (0, 1));
    }

    #[test]
    fn system_registers_come_back_as_they_went() {
        let mut before = SystemRegisters {
            cr0: 0x8005_0033,
            cr3: 0x5000,
            cr4: 0x20,
            efer: 0xd01,
            ..SystemRegisters::initial()
        };
        before.segments[SegmentRegister::Cs as usize].attributes = 0xa0fb;
        before.segments[SegmentRegister::Fs as usize].base = 0x7fff_0000_1000;
        before.segments[SegmentRegister::Ldt as usize] = Segment::default();
        let mut kvm = kvm_sregs {
            apic_base: 0xfee0_0900,
            ..kvm_sregs::default()
        };
        put_system(&before, &mut kvm);
        assert_eq!(system(&kvm), before);
        assert_eq!(kvm.ldt.unusable, 1);
        assert_eq!((kvm.cs.dpl, kvm.cs.l, kvm.cs.db), (3, 1, 0));
        assert_eq!(kvm.apic_base, 0xfee0_0900);
    }
}
