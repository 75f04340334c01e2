//! The superblock of a squashfs, and metadata blocks: chains of up to 8 KiB each, compressed or not.
//!
//! Nothing outside the image is read, and a bounded number of unpacked blocks is cached. Called by all readers of a
//! squashfs.

use std::collections::BTreeMap;
use std::io::{self, Read};

use crate::source::blobs::Range;
use crate::source::compression::XZ_MEMORY_KIB;

/// Longest metadata block after unpacking.
const LONGEST: usize = 8192;
/// Limit on cached blocks, 8 MiB of them.
const KEPT: usize = 1024;
/// Position of an absent table.
const NONE: u64 = u64::MAX;

/// The superblock.
#[derive(Debug, Clone)]
pub(super) struct Superblock {
    pub(super) block_size: u32,
    pub(super) fragments: u32,
    compression: Compression,
    ids: u16,
    pub(super) root_inode: u64,
    id_table: u64,
    pub(super) attribute_table: Option<u64>,
    pub(super) inode_table: u64,
    pub(super) directory_table: u64,
    pub(super) fragment_table: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Compression {
    Gzip,
    Xz,
    Lz4,
    Zstd,
}

/// Reads an image's metadata.
pub(super) struct Metadata {
    bytes: Range,
    pub(super) superblock: Superblock,
    ids: Vec<u32>,
    /// Unpacked blocks by position, with the position of the next one.
    blocks: BTreeMap<u64, (Vec<u8>, u64)>,
}

/// A position in the metadata.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    block: u64,
    offset: usize,
}

impl Cursor {
    pub(super) fn new(block: u64, offset: u64) -> Self {
        Self {
            block,
            offset: offset.min(LONGEST as u64) as usize,
        }
    }

    /// The position of a reference in the table at `table`.
    pub(super) fn at(table: u64, reference: u64) -> io::Result<Self> {
        let block = table
            .checked_add(reference >> 16)
            .ok_or_else(|| damaged("a place is impossible"))?;
        Ok(Self::new(block, reference & 0xffff))
    }
}

impl Metadata {
    pub(super) fn open(bytes: Range) -> io::Result<Self> {
        let mut first = [0; 96];
        bytes.clone().read_exact(&mut first)?;
        let mut metadata = Self {
            bytes,
            superblock: Superblock::parse(&first)?,
            ids: Vec::new(),
            blocks: BTreeMap::new(),
        };
        for index in 0..u64::from(metadata.superblock.ids) {
            let table = metadata.superblock.id_table;
            let mut cursor = metadata.indexed(table, index, 4)?;
            let id = u32::from_le_bytes(metadata.array(&mut cursor)?);
            metadata.ids.push(id);
        }
        Ok(metadata)
    }

    /// An owner's or group's ID.
    pub(super) fn id(&self, index: u16) -> io::Result<u32> {
        let id = self.ids.get(usize::from(index)).copied();
        id.ok_or_else(|| damaged("an owner isn't in the table of owners"))
    }

    /// Position of an entry of a table with an index of its blocks' positions.
    pub(super) fn indexed(&self, table: u64, index: u64, size: u64) -> io::Result<Cursor> {
        let a_block = LONGEST as u64 / size;
        let place = table.checked_add(index / a_block * 8);
        let mut place = self.raw(place.ok_or_else(|| damaged("a table's place is impossible"))?)?;
        let mut bytes = [0; 8];
        place.read_exact(&mut bytes)?;
        Ok(Cursor::new(
            u64::from_le_bytes(bytes),
            index % a_block * size,
        ))
    }

    /// The image's bytes from a position on.
    pub(super) fn raw(&self, place: u64) -> io::Result<Range> {
        let range = self.bytes.from(place);
        range.ok_or_else(|| damaged("a place lies outside of the image"))
    }

    pub(super) fn array<const N: usize>(&mut self, cursor: &mut Cursor) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(cursor, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills a buffer from the metadata at the cursor, and advances it.
    pub(super) fn fill(&mut self, cursor: &mut Cursor, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let (block, next) = self.block(cursor.block)?;
            let Some(left) = block.get(cursor.offset..).filter(|left| !left.is_empty()) else {
                if block.len() < LONGEST || cursor.offset > block.len() {
                    return Err(damaged("metadata end early"));
                }
                *cursor = Cursor::new(*next, 0);
                continue;
            };
            let count = left.len().min(buffer.len());
            let (now, later) = buffer.split_at_mut(count);
            now.copy_from_slice(&left[..count]);
            buffer = later;
            cursor.offset += count;
        }
        Ok(())
    }

    fn block(&mut self, place: u64) -> io::Result<&(Vec<u8>, u64)> {
        if self.blocks.len() >= KEPT && !self.blocks.contains_key(&place) {
            self.blocks.clear();
        }
        if !self.blocks.contains_key(&place) {
            let block = self.read_block(place)?;
            self.blocks.insert(place, block);
        }
        Ok(&self.blocks[&place])
    }

    fn read_block(&self, place: u64) -> io::Result<(Vec<u8>, u64)> {
        let mut input = self.raw(place)?;
        let mut head = [0; 2];
        input.read_exact(&mut head)?;
        let head = u16::from_le_bytes(head);
        let length = usize::from(head & 0x7fff);
        if length == 0 || length > LONGEST {
            return Err(damaged("a metadata block has an impossible length"));
        }
        let mut bytes = vec![0; length];
        input.read_exact(&mut bytes)?;
        if head & 0x8000 == 0 {
            bytes = self.unpack(&bytes, LONGEST)?;
        }
        Ok((bytes, place + 2 + length as u64))
    }

    /// Unpacks a block to at most `most` bytes.
    pub(super) fn unpack(&self, bytes: &[u8], most: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut read = |input: &mut dyn Read| input.take(most as u64 + 1).read_to_end(&mut out);
        match self.superblock.compression {
            Compression::Gzip => read(&mut flate2::bufread::ZlibDecoder::new(bytes))?,
            Compression::Xz => read(&mut lzma_rust2::XzReader::new_mem_limit(
                bytes,
                false,
                XZ_MEMORY_KIB,
            ))?,
            Compression::Zstd => read(&mut zstd::stream::read::Decoder::with_buffer(bytes)?)?,
            Compression::Lz4 => {
                out.resize(most, 0);
                let length = lz4_flex::block::decompress_into(bytes, &mut out);
                let length = length.map_err(|_| damaged("an LZ4 block is damaged"))?;
                out.truncate(length);
                length
            }
        };
        if out.len() > most {
            return Err(damaged("a block unpacks to more than its size"));
        }
        Ok(out)
    }
}

impl Superblock {
    fn parse(bytes: &[u8; 96]) -> io::Result<Self> {
        let u16 = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32 = |at: usize| u32::from(u16(at)) | u32::from(u16(at + 2)) << 16;
        let u64 = |at: usize| u64::from(u32(at)) | u64::from(u32(at + 4)) << 32;
        let table = |at: usize| Some(u64(at)).filter(|&place| place != NONE);
        if &bytes[..4] != b"hsqs" || (u16(28), u16(30)) != (4, 0) {
            return Err(damaged("it is no squashfs of version 4.0"));
        }
        let block_size = u32(12);
        if !block_size.is_power_of_two() || !(4096..=1 << 20).contains(&block_size) {
            return Err(damaged("its block size is impossible"));
        }
        let compression = match u16(20) {
            1 => Compression::Gzip,
            4 => Compression::Xz,
            5 => Compression::Lz4,
            6 => Compression::Zstd,
            _ => {
                return Err(damaged(
                    "it is compressed by LZMA, LZO or an unknown way: make it with `-comp zstd`",
                ));
            }
        };
        Ok(Self {
            block_size,
            fragments: u32(16),
            compression,
            ids: u16(26),
            root_inode: u64(32),
            id_table: u64(48),
            attribute_table: table(56),
            inode_table: u64(64),
            directory_table: u64(72),
            fragment_table: table(80),
        })
    }
}

pub(super) fn damaged(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
