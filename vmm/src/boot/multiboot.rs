//! Kernels of the Multiboot specification, version 0.6.96: a header in the first 8 KiB of the file,
//! and a 32-bit entry with a table of the machine's resources.
//!
//! A header is used only as far as the file holds the bytes it refers to; requests for unsupported
//! features, such as a video mode, are refused. `kernel` gets the plan from here, and `boot` writes
//! the table into memory.

use super::elf::ElfFile;
use super::layout;

const MAGIC: u32 = 0x1bad_b002;
/// The value of EAX at a kernel's entry.
pub(super) const BOOTLOADER_MAGIC: u64 = 0x2bad_b002;
/// The header lies within the first bytes of the file.
const SEARCHED: usize = 8192;
/// Bit 2: the kernel requests a video mode. Bits 3 to 15 are undefined, and mandatory when set.
const UNSUPPORTED: u32 = 0xfffc;
/// The header has load addresses, for files that are not ELF.
const HAS_ADDRESSES: u32 = 1 << 16;

/// Flags of the valid fields of the information table: memory, command line, modules, memory map.
const INFO_FLAGS: u32 = 1 | 1 << 2 | 1 << 3 | 1 << 6;
const INFO_BYTES: usize = 120;
const MODULE_BYTES: usize = 16;
const MAP_ENTRY_BYTES: usize = 24;

/// The load plan of a Multiboot file, in offsets of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoadPlan {
    pub(super) entry: u64,
    /// End of the memory that it uses.
    pub(super) end: u64,
    /// Guest-physical addresses, each with the range of the file to load there.
    pub(super) parts: Vec<(u64, std::ops::Range<usize>)>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Offset of the header; `None` if the file has none.
pub(super) fn header_of(file: &[u8]) -> Option<usize> {
    (0..file.len().min(SEARCHED)).step_by(4).find(|&at| {
        let words = [at, at + 4, at + 8].map(|at| word(file, at));
        matches!(words, [Some(MAGIC), Some(flags), Some(sum)]
            if MAGIC.wrapping_add(flags).wrapping_add(sum) == 0)
    })
}

/// The load plan of `file`, whose header is at offset `header`.
///
/// # Errors
/// A description of the defect.
pub(super) fn plan(file: &[u8], header: usize) -> Result<LoadPlan, String> {
    let flags = word(file, header + 4).unwrap_or(0);
    if flags & UNSUPPORTED != 0 {
        return Err(format!(
            "its multiboot header wants features {:#x}, which are not there",
            flags & UNSUPPORTED
        ));
    }
    if flags & HAS_ADDRESSES != 0 {
        return plan_of_addresses(file, header);
    }
    let elf = ElfFile::parse(file)?;
    if !elf.holds(elf.entry) {
        return Err("its entry point is outside its segments".to_owned());
    }
    Ok(LoadPlan::of_elf(&elf, file, elf.entry))
}

impl LoadPlan {
    /// Loads the segments of `elf`, parsed from `file`, and enters at `entry`.
    pub(super) fn of_elf(elf: &ElfFile<'_>, file: &[u8], entry: u64) -> Self {
        let parts = elf.segments.iter().filter(|part| !part.data.is_empty());
        let parts = parts.map(|part| {
            let start = part.data.as_ptr() as usize - file.as_ptr() as usize;
            (part.addr, start..start + part.data.len())
        });
        Self {
            entry,
            end: elf.end(),
            parts: parts.collect(),
        }
    }
}

/// The plan by the header's own addresses: header, load start, load end, bss end, entry.
fn plan_of_addresses(file: &[u8], header: usize) -> Result<LoadPlan, String> {
    let broken = || "the addresses in its multiboot header make no sense".to_owned();
    let mut fields = [0u64; 5];
    for (index, field) in fields.iter_mut().enumerate() {
        *field = u64::from(word(file, header + 12 + 4 * index).ok_or_else(broken)?);
    }
    let [header_addr, load, load_end, bss_end, entry] = fields;
    let before = header_addr.checked_sub(load).ok_or_else(broken)?;
    let start = (header as u64).checked_sub(before).ok_or_else(broken)? as usize;
    let len = if load_end == 0 {
        file.len() - start
    } else {
        load_end.checked_sub(load).ok_or_else(broken)? as usize
    };
    let range = start..start.checked_add(len).ok_or_else(broken)?;
    file.get(range.clone()).ok_or_else(broken)?;
    let end = (load + len as u64).max(bss_end);
    if !(load..end).contains(&entry) {
        return Err(broken());
    }
    Ok(LoadPlan {
        entry,
        end,
        parts: vec![(load, range)],
    })
}

/// The information table and the structures it points to, for address `at`: `map` is the memory map
/// in e820's terms, `modules` are start, end and the address of a name.
pub(super) fn information(at: u64, map: &[(u64, u64, u32)], module: Option<(u64, u64)>) -> Vec<u8> {
    let mut bytes = vec![0; INFO_BYTES];
    let mut put = |at: usize, value: u64| {
        bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    };
    let upper = map
        .iter()
        .find(|entry| entry.0 == layout::HIGH_MEMORY)
        .map_or(0, |entry| entry.1);
    put(0, u64::from(INFO_FLAGS));
    put(4, layout::CONVENTIONAL_END >> 10);
    put(8, upper >> 10);
    put(16, layout::COMMAND_LINE);
    put(20, u64::from(module.is_some()));
    put(24, at + INFO_BYTES as u64);
    put(44, (map.len() * MAP_ENTRY_BYTES) as u64);
    put(48, at + (INFO_BYTES + MODULE_BYTES) as u64);
    let (start, len) = module.unwrap_or((0, 0));
    for value in [start, start + len, layout::COMMAND_LINE, 0] {
        bytes.extend_from_slice(&(value as u32).to_le_bytes());
    }
    for &(start, len, kind) in map {
        bytes.extend_from_slice(&(MAP_ENTRY_BYTES as u32 - 4).to_le_bytes());
        bytes.extend_from_slice(&start.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&kind.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::kernel::synthetic;

    #[test]
    fn a_header_is_found_by_its_sum_only() {
        let file = synthetic::multiboot(0, &[]);
        let at = header_of(&file).unwrap();
        assert_eq!(word(&file, at), Some(MAGIC));
        let mut broken = file.clone();
        broken[at + 8] ^= 1;
        assert_eq!(header_of(&broken), None);
        let mut late = vec![0; SEARCHED];
        late.extend_from_slice(&file);
        assert_eq!(header_of(&late), None);
    }

    #[test]
    fn an_elf_goes_where_its_segments_say() {
        let file = synthetic::multiboot(0, &[]);
        let plan = plan(&file, header_of(&file).unwrap()).unwrap();
        assert_eq!(plan.entry, synthetic::LOAD);
        assert_eq!(plan.parts[0].0, synthetic::LOAD);
        assert_eq!(&file[plan.parts[0].1.clone()][..4], &MAGIC.to_le_bytes());
    }

    #[test]
    fn other_files_go_where_the_header_says() {
        let load = 0x20_0000u32;
        let header = 84;
        let file = |fields: [u32; 5]| synthetic::multiboot(HAS_ADDRESSES, &fields);
        let good = file([load + header, load, 0, load + 0x1000, load + header + 32]);
        let found = plan(&good, header_of(&good).unwrap()).unwrap();
        assert_eq!(found.parts, [(u64::from(load), 0..good.len())]);
        assert_eq!(found.end, u64::from(load) + 0x1000);
        for fields in [
            [load, load + 4, 0, 0, load],
            [load + header, load, load - 1, 0, load],
            [load + header, load, u32::MAX, 0, load],
            [load + header, load, 0, 0, load - 1],
            [load + header + 1, load, 0, 0, load],
        ] {
            let file = file(fields);
            assert!(
                plan(&file, header_of(&file).unwrap()).is_err(),
                "{fields:x?}"
            );
        }
        let video = synthetic::multiboot(4, &[]);
        assert!(
            plan(&video, header_of(&video).unwrap())
                .unwrap_err()
                .contains("0x4")
        );
    }
}
