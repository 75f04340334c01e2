//! Sections of an ELF file, unpacked.
//!
//! The declared unpacked size of a section is bounded. Used by the modules that read files.

use std::io::Read;

use object::read::elf::ElfFile64;
use object::{CompressionFormat, Endianness, Object, ObjectSection};

/// Longest unpacked section, in bytes.
const LONGEST: u64 = 1 << 31;

/// A parsed ELF file.
pub(crate) type Elf<'data> = ElfFile64<'data, Endianness>;

/// Parses `data`, if it is an ELF file.
pub(crate) fn parse(data: &[u8]) -> Option<Elf<'_>> {
    Elf::parse(data).ok()
}

/// Returns the section of this name; empty if it is missing or damaged.
pub(crate) fn section(elf: &Elf<'_>, name: &str) -> Vec<u8> {
    unpacked(elf, name).unwrap_or_default()
}

fn unpacked(elf: &Elf<'_>, name: &str) -> Option<Vec<u8>> {
    let section = elf.section_by_name(name)?;
    let stored = section.compressed_data().ok()?;
    let length = stored.uncompressed_size;
    if length > LONGEST {
        return None;
    }
    let mut bytes = Vec::new();
    let read = match stored.format {
        CompressionFormat::None => return Some(stored.data.to_vec()),
        CompressionFormat::Zlib => {
            let unpacked = flate2::read::ZlibDecoder::new(stored.data);
            unpacked.take(length).read_to_end(&mut bytes)
        }
        CompressionFormat::Zstandard => {
            let unpacked = zstd::stream::read::Decoder::new(stored.data).ok()?;
            unpacked.take(length).read_to_end(&mut bytes)
        }
        _ => return None,
    };
    read.is_ok().then_some(bytes)
}
