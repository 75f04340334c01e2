//! Data of a squashfs file: blocks, and an end that may share a fragment block with other files.
//!
//! One block is in memory at a time, and no block is larger than the image's block size. Called when files are
//! copied.

use std::io::{self, Read};

use super::metadata::{Cursor, Metadata, damaged};

/// Bit of a block's size: the block is not compressed.
const PLAIN: u32 = 1 << 24;

/// Location of a file's data.
#[derive(Debug, Clone)]
pub(super) struct File {
    /// Position of its first block.
    pub(super) start: u64,
    pub(super) size: u64,
    /// The fragment block with its end, and the offset there.
    pub(super) fragment: Option<u32>,
    pub(super) offset: u32,
    /// Position of the sizes of its blocks.
    pub(super) blocks: Cursor,
}

/// The last fragment block that was read; files that share one follow each other.
#[derive(Default)]
pub(super) struct Fragments {
    last: Option<(u32, Vec<u8>)>,
}

/// Reads a file's data, a block at a time.
pub(super) struct BlockReader<'a> {
    metadata: &'a mut Metadata,
    fragments: &'a mut Fragments,
    file: File,
    /// Bytes that are not read yet, without those of `block`.
    left: u64,
    block: Vec<u8>,
    used: usize,
}

impl<'a> BlockReader<'a> {
    pub(super) fn new(
        metadata: &'a mut Metadata,
        fragments: &'a mut Fragments,
        file: File,
    ) -> Self {
        Self {
            metadata,
            fragments,
            left: file.size,
            file,
            block: Vec::new(),
            used: 0,
        }
    }

    fn next_block(&mut self) -> io::Result<()> {
        let block_size = u64::from(self.metadata.superblock.block_size);
        let length = self.left.min(block_size) as usize;
        self.block = match self.file.fragment {
            Some(number) if self.left < block_size => self.end(number, length)?,
            _ => self.whole(length)?,
        };
        self.left -= length as u64;
        self.used = 0;
        Ok(())
    }

    fn whole(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let word = u32::from_le_bytes(self.metadata.array(&mut self.file.blocks)?);
        let stored = word & (PLAIN - 1);
        if stored == 0 {
            return Ok(vec![0; length]);
        }
        let block = read_block(self.metadata, self.file.start, word, length)?;
        self.file.start += u64::from(stored);
        if block.len() != length {
            return Err(damaged("a block has not the size that the file needs"));
        }
        Ok(block)
    }

    fn end(&mut self, number: u32, length: usize) -> io::Result<Vec<u8>> {
        let is_last = |last: &&(u32, Vec<u8>)| last.0 == number;
        if self.fragments.last.as_ref().filter(is_last).is_none() {
            let block = fragment(self.metadata, number)?;
            self.fragments.last = Some((number, block));
        }
        let block = self
            .fragments
            .last
            .as_ref()
            .map_or(&[][..], |(_, block)| &block[..]);
        let start = self.file.offset as usize;
        let end = block.get(start..).and_then(|rest| rest.get(..length));
        Ok(end
            .ok_or_else(|| damaged("a file's end isn't in its fragment"))?
            .to_vec())
    }
}

impl Read for BlockReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.block.len() {
            if self.left == 0 {
                return Ok(0);
            }
            self.next_block()?;
        }
        let count = buffer.len().min(self.block.len() - self.used);
        buffer[..count].copy_from_slice(&self.block[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}

fn fragment(metadata: &mut Metadata, number: u32) -> io::Result<Vec<u8>> {
    let superblock = &metadata.superblock;
    let (Some(table), true) = (superblock.fragment_table, number < superblock.fragments) else {
        return Err(damaged("a fragment isn't in the table of fragments"));
    };
    let mut cursor = metadata.indexed(table, u64::from(number), 16)?;
    let start = u64::from_le_bytes(metadata.array(&mut cursor)?);
    let word = u32::from_le_bytes(metadata.array(&mut cursor)?);
    let most = metadata.superblock.block_size as usize;
    read_block(metadata, start, word, most)
}

fn read_block(metadata: &Metadata, start: u64, word: u32, most: usize) -> io::Result<Vec<u8>> {
    let stored = (word & (PLAIN - 1)) as usize;
    if stored > metadata.superblock.block_size as usize {
        return Err(damaged("a block is longer than blocks are"));
    }
    let mut bytes = vec![0; stored];
    metadata.raw(start)?.read_exact(&mut bytes)?;
    if word & PLAIN != 0 {
        return Ok(bytes);
    }
    metadata.unpack(&bytes, most)
}
