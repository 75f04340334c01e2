//! The PVH convention (Xen, `docs/misc/pvh.pandoc`): a 32-bit entry that a note of the ELF file
//! gives, and a table of the machine's resources.
//!
//! The table has the same contents as Linux's zero page: memory map, command line, initial RAM disk
//! and ACPI tables. `boot` writes it for kernels whose ELF file has the note.

use super::layout;

const MAGIC: u32 = 0x336e_c578;
/// The first version with a memory map.
const VERSION: u32 = 1;
const START_INFO_BYTES: u64 = 56;
const MODULE_BYTES: u64 = 32;

/// The start information and the structures it points to, for address `at`.
pub(super) fn start_info(
    at: u64,
    map: &[(u64, u64, u32)],
    module: Option<(u64, u64)>,
    rsdp: u64,
) -> Vec<u8> {
    let modules = at + START_INFO_BYTES;
    let entries = modules + MODULE_BYTES;
    let mut bytes = Vec::new();
    let mut put = |value: u64, size: usize| bytes.extend_from_slice(&value.to_le_bytes()[..size]);
    put(u64::from(MAGIC), 4);
    put(u64::from(VERSION), 4);
    put(0, 4);
    put(u64::from(module.is_some()), 4);
    put(modules, 8);
    put(layout::COMMAND_LINE, 8);
    put(rsdp, 8);
    put(entries, 8);
    put(map.len() as u64, 4);
    put(0, 4);
    let (start, len) = module.unwrap_or((0, 0));
    for value in [start, len, 0, 0] {
        put(value, 8);
    }
    for &(start, len, kind) in map {
        put(start, 8);
        put(len, 8);
        put(u64::from(kind), 4);
        put(0, 4);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_loader::loader::elf::start_info::{
        XEN_HVM_START_MAGIC_VALUE, hvm_memmap_table_entry, hvm_start_info,
    };
    use vm_memory::ByteValued;

    #[derive(Clone, Copy, Default)]
    #[repr(transparent)]
    struct Info(hvm_start_info);
    #[derive(Clone, Copy, Default)]
    #[repr(transparent)]
    struct Entry(hvm_memmap_table_entry);
    #[allow(unsafe_code)]
    // SAFETY: integers only, without padding.
    unsafe impl ByteValued for Info {}
    #[allow(unsafe_code)]
    // SAFETY: integers only, without padding.
    unsafe impl ByteValued for Entry {}

    #[test]
    fn the_table_is_the_one_that_others_define() {
        let map = [(0, 0x9_fc00, 1), (1 << 20, 63 << 20, 1)];
        let bytes = start_info(0x7000, &map, Some((0x300_0000, 99)), 0xe_0000);
        let mut info = Info::default();
        info.as_mut_slice().copy_from_slice(&bytes[..56]);
        let info = info.0;
        assert_eq!((info.magic, info.version), (XEN_HVM_START_MAGIC_VALUE, 1));
        assert_eq!(
            (info.nr_modules, info.modlist_paddr, info.rsdp_paddr),
            (1, 0x7038, 0xe_0000)
        );
        assert_eq!(info.memmap_entries, 2);
        let mut entry = Entry::default();
        let second = (info.memmap_paddr - 0x7000) as usize + 24;
        entry
            .as_mut_slice()
            .copy_from_slice(&bytes[second..second + 24]);
        assert_eq!(
            (entry.0.addr, entry.0.size, entry.0.type_),
            (1 << 20, 63 << 20, 1)
        );
    }
}
