//! `struct boot_params`, the zero page (Linux, Documentation/arch/x86/boot.rst and zero-page.rst).
//!
//! It has the command line, the initial RAM disk, the memory map and the RSDP's address; the other
//! fields are copied from the kernel's setup header. `boot` writes it for kernels that are entered
//! by the Linux protocol; the other conventions use its memory map, too.

use linux_loader::loader::bootparam::{boot_e820_entry, boot_params};
use vm_memory::ByteValued;

use super::kernel::Loaded;
use super::layout;

const E820_RAM: u32 = 1;
const E820_RESERVED: u32 = 2;

const BOOT_FLAG: u16 = 0xaa55;
const HEADER_MAGIC: u32 = u32::from_le_bytes(*b"HdrS");
/// The id of boot loaders without an assigned number.
const LOADER_UNDEFINED: u8 = 0xff;

/// The zero page for a machine with memory map `map`.
pub(super) fn build(
    map: &[(u64, u64, u32)],
    kernel: &Loaded,
    initrd: Option<(u64, u64)>,
    rsdp: u64,
) -> Vec<u8> {
    let mut page = boot_params {
        acpi_rsdp_addr: rsdp,
        hdr: kernel.header,
        ..Default::default()
    };
    page.hdr.boot_flag = BOOT_FLAG;
    page.hdr.header = HEADER_MAGIC;
    page.hdr.type_of_loader = LOADER_UNDEFINED;
    page.hdr.cmd_line_ptr = layout::COMMAND_LINE as u32;
    if let Some((addr, len)) = initrd {
        page.hdr.ramdisk_image = addr as u32;
        page.ext_ramdisk_image = (addr >> 32) as u32;
        page.hdr.ramdisk_size = len as u32;
        page.ext_ramdisk_size = (len >> 32) as u32;
    }
    page.e820_entries = map.len() as u8;
    for (slot, &(addr, size, kind)) in map.iter().enumerate() {
        page.e820_table[slot] = boot_e820_entry {
            addr,
            size,
            r#type: kind,
        };
    }
    page.as_slice().to_vec()
}

/// The memory map of a machine with `memory` bytes: start, length and e820 type.
pub(super) fn memory_map(memory: u64) -> Vec<(u64, u64, u32)> {
    let hole_start = layout::CONVENTIONAL_END;
    let hole_size = layout::HIGH_MEMORY - hole_start;
    let low_end = layout::low_end(memory);
    let mut map = vec![
        (0, hole_start, E820_RAM),
        (hole_start, hole_size, E820_RESERVED),
        (layout::HIGH_MEMORY, low_end - layout::HIGH_MEMORY, E820_RAM),
    ];
    for (start, len) in layout::ram_ranges(memory).into_iter().skip(1) {
        map.push((start, len as u64, E820_RAM));
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_covers_the_memory_and_skips_the_hole() {
        for memory in [256 << 20, 3 << 30, 5 << 30] {
            let map = memory_map(memory);
            let ends: Vec<u64> = map.iter().map(|(start, len, _)| start + len).collect();
            assert!(
                map.iter()
                    .skip(1)
                    .zip(&ends)
                    .all(|(next, end)| next.0 >= *end)
            );
            let total: u64 = map.iter().map(|entry| entry.1).sum();
            assert_eq!(total, memory);
            let hole = 3u64 << 30..4 << 30;
            assert!(
                map.iter()
                    .zip(&ends)
                    .all(|(entry, end)| *end <= hole.start || entry.0 >= hole.end)
            );
        }
    }
}
