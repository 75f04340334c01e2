//! ELF files of either class: segments and the PVH entry point.
//!
//! Files are untrusted: every offset and length is checked, and a segment's bytes lie in the file.
//! `kernel` and `multiboot` load the segments.

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

/// Type of the note that holds the PVH entry point (Xen, `XEN_ELFNOTE_PHYS32_ENTRY`).
const NOTE_PHYS32_ENTRY: u32 = 18;
/// A limit on segments, above any real kernel's.
const MOST_SEGMENTS: usize = 64;

/// A loadable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoadSegment<'a> {
    /// Guest-physical address.
    pub(super) addr: u64,
    /// Its bytes in the file; the rest of it is zero, as fresh memory is.
    pub(super) data: &'a [u8],
    /// Its size in memory, in bytes.
    pub(super) size: u64,
}

/// An ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ElfFile<'a> {
    pub(super) entry: u64,
    pub(super) segments: Vec<LoadSegment<'a>>,
    /// Physical address of its 32-bit entry point after the PVH convention.
    pub(super) pvh_entry: Option<u64>,
}

impl<'a> ElfFile<'a> {
    /// Parses `bytes`, a 32- or 64-bit little-endian x86 file.
    ///
    /// # Errors
    /// A description of the defect.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        match bytes.get(4) {
            Some(1) => Self::parse_as::<FileHeader32<Endianness>>(bytes),
            _ => Self::parse_as::<FileHeader64<Endianness>>(bytes),
        }
    }

    fn parse_as<H: FileHeader<Endian = Endianness>>(bytes: &'a [u8]) -> Result<Self, String> {
        let broken = |error: object::Error| format!("its ELF headers are broken ({error})");
        let header = H::parse(bytes).map_err(broken)?;
        let endian = header.endian().map_err(broken)?;
        let headers = header.program_headers(endian, bytes).map_err(broken)?;
        if headers.len() > MOST_SEGMENTS {
            return Err(format!(
                "it has {} program headers, more than {MOST_SEGMENTS}",
                headers.len()
            ));
        }
        let mut file = Self {
            entry: header.e_entry(endian).into(),
            segments: Vec::new(),
            pvh_entry: None,
        };
        for header in headers {
            if let Some(mut notes) = header.notes(endian, bytes).map_err(broken)? {
                while let Some(note) = notes.next().map_err(broken)? {
                    if note.name() == b"Xen" && note.n_type(endian) == NOTE_PHYS32_ENTRY {
                        file.pvh_entry = note
                            .desc()
                            .first_chunk()
                            .map(|entry| u64::from(u32::from_le_bytes(*entry)));
                    }
                }
            }
            if header.p_type(endian) != PT_LOAD {
                continue;
            }
            let (addr, size): (u64, u64) =
                (header.p_paddr(endian).into(), header.p_memsz(endian).into());
            let data = header
                .data(endian, bytes)
                .map_err(|()| "a segment goes past the end of the file".to_owned())?;
            if data.len() as u64 > size || addr.checked_add(size).is_none() {
                return Err("a segment is larger in the file than in memory".to_owned());
            }
            file.segments.push(LoadSegment { addr, data, size });
        }
        if file.segments.is_empty() {
            return Err("it has nothing to load".to_owned());
        }
        Ok(file)
    }

    /// The end of the memory that its segments take.
    pub(super) fn end(&self) -> u64 {
        let ends = self
            .segments
            .iter()
            .map(|segment| segment.addr + segment.size);
        ends.max().unwrap_or(0)
    }

    /// True if `addr` lies in a segment.
    pub(super) fn holds(&self, addr: u64) -> bool {
        self.segments
            .iter()
            .any(|segment| (segment.addr..segment.addr + segment.size).contains(&addr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::kernel::synthetic;
    use proptest::prelude::*;

    #[test]
    fn both_classes_are_read() {
        for bytes in [
            synthetic::elf(b"code", 12),
            synthetic::elf32(b"code", 12, synthetic::LOAD as u32),
        ] {
            let file = ElfFile::parse(&bytes).unwrap();
            assert_eq!(file.entry, synthetic::LOAD);
            assert_eq!(file.end(), synthetic::LOAD + 16);
            assert!(file.holds(file.entry) && !file.holds(file.end()));
            assert_eq!(file.segments[0].data, b"code");
            assert_eq!(file.pvh_entry, None);
        }
    }

    #[test]
    fn the_pvh_note_is_found() {
        let bytes = synthetic::elf_with_pvh(b"code", 0x12_3456);
        assert_eq!(ElfFile::parse(&bytes).unwrap().pvh_entry, Some(0x12_3456));
    }

    proptest! {
        #[test]
        fn hostile_files_are_refused_not_unwound(
            class in 1u8..3,
            damage in proptest::collection::vec((4usize..200, any::<u8>()), 1..8),
        ) {
            let mut bytes = if class == 1 {
                synthetic::elf32(b"some code", 100, synthetic::LOAD as u32)
            } else {
                synthetic::elf_with_pvh(b"some code", 7)
            };
            for (at, value) in damage {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            let _ = ElfFile::parse(&bytes);
        }
    }
}
