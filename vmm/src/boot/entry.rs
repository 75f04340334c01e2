//! The processor's state at a kernel's entry. Linux, at 64 bits: long mode, the
//! first 4 GiB mapped onto themselves, flat segments (Linux boot protocol, "64-bit
//! boot protocol"). Multiboot and PVH: protected mode, flat 32-bit segments, no paging.

use belljar_cpu::{DescriptorTable, Registers, Segment, SegmentRegister, SystemRegisters};

use super::kernel::Protocol;
use super::{layout, multiboot};

const BOOT_CS: u16 = 0x10;
const BOOT_DS: u16 = 0x18;
const BOOT_TR: u16 = 0x20;
const BOOT_CS_32: u16 = 0x30;

const PRESENT_WRITABLE: u64 = 3;
const LARGE_PAGE: u64 = 1 << 7;
const TABLE: u64 = 4096;
/// Number of 2 MiB pages in 4 GiB.
const LARGE_PAGES: u64 = 2048;

const CR0_PROTECTION: u64 = 1;
const CR0_EXTENSION_TYPE: u64 = 1 << 4;
const CR0_NUMERIC_ERROR: u64 = 1 << 5;
const CR0_PAGING: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const EFER_LONG_MODE_ENABLED_ACTIVE: u64 = 1 << 8 | 1 << 10;
const RFLAGS_FIXED: u64 = 2;

/// Present code segment: executable, readable, accessed, 64-bit, page granular.
const CODE: Segment = flat(BOOT_CS, 0xa09b);
/// Present code segment: executable, readable, accessed, 32-bit, page granular.
const CODE_32: Segment = flat(BOOT_CS_32, 0xc09b);
/// Present data segment: writable, accessed, 32-bit, page granular.
const DATA: Segment = flat(BOOT_DS, 0xc093);
const TASK: Segment = Segment {
    selector: BOOT_TR,
    base: 0,
    limit: 0x67,
    // Present, busy 64-bit TSS.
    attributes: 0x008b,
};

const fn flat(selector: u16, attributes: u16) -> Segment {
    Segment {
        selector,
        base: 0,
        limit: u32::MAX,
        attributes,
    }
}

/// General registers: the zero page in RSI, interrupts off.
pub(super) fn registers(entry: u64) -> Registers {
    let mut registers = Registers {
        rip: entry,
        rflags: RFLAGS_FIXED,
        ..Registers::default()
    };
    registers.gpr[Registers::RSI] = layout::ZERO_PAGE;
    registers.gpr[Registers::RSP] = layout::STACK;
    registers
}

/// Segments and control registers.
pub(super) fn system() -> SystemRegisters {
    let mut segments = [DATA; 8];
    segments[SegmentRegister::Cs as usize] = CODE;
    segments[SegmentRegister::Tr as usize] = TASK;
    segments[SegmentRegister::Ldt as usize] = Segment::default();
    SystemRegisters {
        segments,
        gdt: DescriptorTable {
            base: layout::GDT,
            limit: (gdt().len() - 1) as u16,
        },
        idt: DescriptorTable::default(),
        cr0: CR0_PROTECTION | CR0_EXTENSION_TYPE | CR0_NUMERIC_ERROR | CR0_PAGING,
        cr2: 0,
        cr3: layout::PAGE_TABLES,
        cr4: CR4_PAE,
        efer: EFER_LONG_MODE_ENABLED_ACTIVE,
    }
}

/// General registers at a 32-bit entry: the table in EBX, the Multiboot magic in EAX.
pub(super) fn flat_registers(entry: u64, protocol: Protocol) -> Registers {
    let mut registers = registers(entry);
    registers.gpr[Registers::RSI] = 0;
    registers.gpr[Registers::RBX] = layout::ZERO_PAGE;
    if protocol == Protocol::Multiboot {
        registers.gpr[Registers::RAX] = multiboot::BOOTLOADER_MAGIC;
    }
    registers
}

/// Segments and control registers at a 32-bit entry.
pub(super) fn flat_system() -> SystemRegisters {
    let mut system = system();
    system.segments[SegmentRegister::Cs as usize] = CODE_32;
    system.cr0 = CR0_PROTECTION | CR0_EXTENSION_TYPE | CR0_NUMERIC_ERROR;
    system.cr3 = 0;
    system.cr4 = 0;
    system.efer = 0;
    system
}

/// The descriptor table that the segments were loaded from; a TSS takes two entries.
pub(super) fn gdt() -> Vec<u8> {
    [
        0,
        0,
        descriptor(&CODE),
        descriptor(&DATA),
        descriptor(&TASK),
        0,
        descriptor(&CODE_32),
    ]
    .into_iter()
    .flat_map(u64::to_le_bytes)
    .collect()
}

/// The eight bytes of a segment's descriptor; a page-granular limit loses its low 12 bits.
fn descriptor(segment: &Segment) -> u64 {
    let attributes = u64::from(segment.attributes);
    let granular = attributes >> 15 & 1 == 1;
    let limit = u64::from(if granular {
        segment.limit >> 12
    } else {
        segment.limit
    });
    attributes << 40
        | (limit >> 16) << 48
        | limit & 0xffff
        | (segment.base & 0xff_ffff) << 16
        | (segment.base >> 24) << 56
}

/// One PML4, one page of page-directory pointers, four page directories.
pub(super) fn page_tables() -> Vec<u8> {
    let pointers = layout::PAGE_TABLES + TABLE;
    let directories = pointers + TABLE;
    let mut bytes = table(&[pointers | PRESENT_WRITABLE]);
    let entries: Vec<u64> = (0..4)
        .map(|index| (directories + index * TABLE) | PRESENT_WRITABLE)
        .collect();
    bytes.extend(table(&entries));
    bytes.extend(
        (0..LARGE_PAGES)
            .flat_map(|page| (page << 21 | LARGE_PAGE | PRESENT_WRITABLE).to_le_bytes()),
    );
    bytes
}

fn table(entries: &[u64]) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries
        .iter()
        .flat_map(|entry| entry.to_le_bytes())
        .collect();
    bytes.resize(TABLE as usize, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_those_of_the_boot_protocol() {
        assert_eq!(descriptor(&CODE), 0x00af_9b00_0000_ffff);
        assert_eq!(descriptor(&DATA), 0x00cf_9300_0000_ffff);
        assert_eq!(descriptor(&TASK), 0x0000_8b00_0000_0067);
    }

    #[test]
    fn every_address_below_4_gib_maps_to_itself() {
        let bytes = page_tables();
        let read = |addr: u64| -> u64 {
            let at = (addr - layout::PAGE_TABLES) as usize;
            u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
        };
        for addr in [
            0u64,
            0x10_0000,
            0x1234_5678,
            0xfee0_0000,
            u64::from(u32::MAX),
        ] {
            let pointer = read(layout::PAGE_TABLES + (addr >> 39 & 511) * 8) & !0xfff;
            let directory = read(pointer + (addr >> 30 & 511) * 8) & !0xfff;
            let page = read(directory + (addr >> 21 & 511) * 8);
            assert_eq!(page & 0x83, 0x83);
            assert_eq!((page & !0xfff) | addr & 0x1f_ffff, addr);
        }
        assert!(layout::PAGE_TABLES + bytes.len() as u64 <= layout::COMMAND_LINE);
    }
}
