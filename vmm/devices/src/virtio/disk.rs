//! The contents of a virtio block device: a shared read-only image, a private overlay over one, or memory.
//!
//! An image is never written: a guest's writes are 4 KiB blocks in its own disk, and a clone of a `Disk`
//! shares the other blocks. `block` reads and writes within the length; checkpoints save the written blocks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SECTOR;

const BLOCK: u64 = 4096;

/// Errors of opening a disk image.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The image cannot be opened.
    #[error("cannot open disk image {path}: {source}; check the path, or build the image first")]
    Open {
        /// The image.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The image's size is zero or not a whole number of sectors.
    #[error(
        "disk image {path} has {len} bytes, which is not a whole, positive number of 512-byte sectors; rebuild it"
    )]
    Size {
        /// The image.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
    },
}

/// Blocks of 4096 bytes that a guest wrote, by number.
pub type Written = Vec<(u64, Vec<u8>)>;

/// A disk's contents. Clones share unwritten blocks.
#[derive(Clone, Debug)]
pub struct Disk {
    base: Base,
    len: u64,
    written: Option<BTreeMap<u64, Box<[u8]>>>,
}

#[derive(Clone, Debug)]
enum Base {
    File(Arc<File>),
    Memory(Arc<[u8]>),
}

impl Disk {
    /// The image at `path`, read-only. The file must not change while it is in use.
    ///
    /// # Errors
    /// [`DiskError`] if the image cannot be opened or its size is not a whole number of sectors.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let open = |source| DiskError::Open {
            path: path.to_owned(),
            source,
        };
        Self::of_file(File::open(path).map_err(open)?, path)
    }

    /// The image in the open `file`, which may be unnamed, read-only; errors call it `path`. It must not
    /// change while it is in use.
    ///
    /// # Errors
    /// [`DiskError`] if the image's size is not a whole number of sectors.
    pub fn of_file(file: File, path: &Path) -> Result<Self, DiskError> {
        let open = |source| DiskError::Open {
            path: path.to_owned(),
            source,
        };
        let len = file.metadata().map_err(open)?.len();
        if len == 0 || !len.is_multiple_of(SECTOR) {
            return Err(DiskError::Size {
                path: path.to_owned(),
                len,
            });
        }
        Ok(Self {
            base: Base::File(Arc::new(file)),
            len,
            written: None,
        })
    }

    /// A read-only disk of `bytes`, filled up with zeros to a whole sector.
    pub fn from_bytes(mut bytes: Vec<u8>) -> Self {
        bytes.resize(bytes.len().next_multiple_of(SECTOR as usize), 0);
        Self {
            len: bytes.len() as u64,
            base: Base::Memory(bytes.into()),
            written: None,
        }
    }

    /// Makes the disk writable: the guest's writes stay in memory and are private to this disk.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.written.get_or_insert_default();
        self
    }

    /// The guest's writes; `None` for a read-only disk.
    pub fn written(&self) -> Option<Written> {
        let blocks = self.written.as_ref()?.iter();
        Some(blocks.map(|(at, block)| (*at, block.to_vec())).collect())
    }

    /// Loads a guest's writes to another clone of this disk; `None` if they are invalid for this disk.
    pub fn set_written(&mut self, written: Option<Written>) -> Option<()> {
        let blocks = written.unwrap_or_default();
        let last = self.len.div_ceil(BLOCK);
        let sound = |(at, block): &(u64, Vec<u8>)| *at < last && block.len() == BLOCK as usize;
        if !blocks.iter().all(sound) || (self.written.is_none() && !blocks.is_empty()) {
            return None;
        }
        if let Some(written) = &mut self.written {
            *written = blocks
                .into_iter()
                .map(|(at, block)| (at, block.into()))
                .collect();
        }
        Some(())
    }

    /// True if the guest may write.
    pub fn is_writable(&self) -> bool {
        self.written.is_some()
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if the disk has no sector.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads `bytes.len()` bytes at `offset`, which must lie within the disk.
    ///
    /// # Errors
    /// The host's error if the image file fails or was truncated.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        match &self.base {
            Base::File(file) => file.read_exact_at(bytes, offset)?,
            Base::Memory(memory) => {
                let from = usize::try_from(offset).map_err(|_| out_of_range())?;
                let end = from.checked_add(bytes.len()).ok_or_else(out_of_range)?;
                bytes.copy_from_slice(memory.get(from..end).ok_or_else(out_of_range)?);
            }
        }
        self.overlay(offset, bytes);
        Ok(())
    }

    /// Writes `bytes` at `offset`, which must lie within the disk.
    ///
    /// # Errors
    /// If the disk is read-only, the range is outside, or the host fails.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset
            .checked_add(bytes.len() as u64)
            .ok_or_else(out_of_range)?;
        if end > self.len || self.written.is_none() {
            return Err(out_of_range());
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (index, within) = (at / BLOCK, (at % BLOCK) as usize);
            let count = (BLOCK as usize - within).min(bytes.len() - done);
            let mut block = self.block(index)?;
            block[within..within + count].copy_from_slice(&bytes[done..done + count]);
            if let Some(written) = &mut self.written {
                written.insert(index, block);
            }
            done += count;
        }
        Ok(())
    }

    /// The present contents of block `index`, taken out of the overlay or copied from the image.
    fn block(&mut self, index: u64) -> io::Result<Box<[u8]>> {
        if let Some(block) = self
            .written
            .as_mut()
            .and_then(|written| written.remove(&index))
        {
            return Ok(block);
        }
        let mut block = vec![0; BLOCK as usize];
        let there = self.len.saturating_sub(index * BLOCK).min(BLOCK) as usize;
        self.read(index * BLOCK, &mut block[..there])?;
        Ok(block.into_boxed_slice())
    }

    fn overlay(&self, offset: u64, bytes: &mut [u8]) {
        let Some(written) = self.written.as_ref().filter(|written| !written.is_empty()) else {
            return;
        };
        let end = offset + bytes.len() as u64;
        for (index, block) in written.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            let start = index * BLOCK;
            let from = start.max(offset);
            let to = (start + BLOCK).min(end);
            bytes[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&block[(from - start) as usize..(to - start) as usize]);
        }
    }
}

fn out_of_range() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "access outside the disk")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    #[test]
    fn bad_images_are_named() {
        let missing = Disk::open(Path::new("/nonexistent/disk.img")).unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/disk.img"));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[0; 700]).unwrap();
        assert!(matches!(
            Disk::open(file.path()),
            Err(DiskError::Size { len: 700, .. })
        ));
    }

    #[test]
    fn a_clone_keeps_its_writes_to_itself() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        let base = Disk::open(file.path()).unwrap();
        assert!(base.clone().write(0, &[1]).is_err());
        let mut one = base.clone().writable();
        let other = one.clone();
        one.write(4000, &[9; 200]).unwrap();
        let mut bytes = [0; 202];
        one.read(3999, &mut bytes).unwrap();
        assert_eq!((bytes[0], bytes[1], bytes[200], bytes[201]), (7, 9, 9, 7));
        other.read(3999, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7));
    }

    proptest! {
        #[test]
        fn an_overlay_reads_like_plain_memory(
            writes in proptest::collection::vec((0usize..20_000, 1usize..6_000, any::<u8>()), 1..12),
        ) {
            let mut plain = vec![3u8; 20_480];
            let mut disk = Disk::from_bytes(plain.clone()).writable();
            for (at, len, value) in writes {
                let len = len.min(plain.len() - at);
                plain[at..at + len].fill(value);
                disk.write(at as u64, &vec![value; len]).unwrap();
                let mut seen = vec![0; plain.len() - at / 2];
                disk.read((at / 2) as u64, &mut seen).unwrap();
                prop_assert_eq!(&seen[..], &plain[at / 2..]);
            }
        }
    }
}
