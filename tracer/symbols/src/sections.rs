//! Sections of an ELF file, unpacked.
//!
//! What a section claims to unpack to is bounded. Called by the modules that read files.

use std::io::Read;

use object::read::elf::ElfFile64;
use object::{CompressionFormat, Endianness, Object, ObjectSection};

/// The longest section that is unpacked, in bytes.
const LONGEST: u64 = 1 << 31;

/// An ELF file that was read.
pub(crate) type Elf<'data> = ElfFile64<'data, Endianness>;

/// The file in `data`, if it is one.
pub(crate) fn parse(data: &[u8]) -> Option<Elf<'_>> {
    Elf::parse(data).ok()
}

/// The section of this name; empty where it is missing or damaged.
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
