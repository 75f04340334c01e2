//! The bytes of a file that goes into an image. Files may be larger than memory, so those of packages and of
//! the user's folders are copied from their place in chunks. Used wherever file trees are assembled, checked
//! and written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::ReadCache;

use crate::debian::digest::{Md5Hex, Sha256Hex};
use crate::filesystem::elf::{self, Needs};

/// Bytes per read.
const PIECE: usize = 1 << 20;

/// Magic of ELF files.
const ELF: &[u8] = b"\x7fELF";

/// The bytes of a file.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    /// In memory.
    Bytes(Vec<u8>),
    /// A part of an open file.
    Part {
        file: Arc<File>,
        offset: u64,
        size: u64,
    },
    /// A file on this host, which had this size in bytes.
    Path { path: PathBuf, size: u64 },
}

impl Data {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Part { size, .. } | Self::Path { size, .. } => *size,
        }
    }

    /// Copies all of it.
    pub(crate) fn copy_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut reader = self.reader()?;
        let mut piece = vec![0; PIECE.min(self.size() as usize).max(1)];
        let mut left = self.size();
        while left > 0 {
            let most = left.min(piece.len() as u64) as usize;
            let read = reader.read(&mut piece[..most])?;
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file became shorter",
                ));
            }
            out.write_all(&piece[..read])?;
            left -= read as u64;
        }
        Ok(())
    }

    /// Its SHA-256, in hexadecimal.
    pub(crate) fn sha256(&self) -> io::Result<String> {
        let mut hash = Sha256Hex::default();
        self.copy_to(&mut hash)?;
        Ok(hash.finish())
    }

    /// Its MD5, in hexadecimal.
    pub(crate) fn md5(&self) -> io::Result<String> {
        let mut hash = Md5Hex::default();
        self.copy_to(&mut hash)?;
        Ok(hash.finish())
    }

    /// Its dependencies as a program or library; `None` for other files.
    pub(crate) fn needs(&self) -> io::Result<Option<Needs>> {
        if self.size() < ELF.len() as u64 {
            return Ok(None);
        }
        let mut head = [0; ELF.len()];
        let mut reader = self.reader()?;
        reader.read_exact(&mut head)?;
        if head != ELF {
            return Ok(None);
        }
        // The cache reads only the parts that the parser needs.
        Ok(elf::needs(&ReadCache::new(reader)))
    }

    /// True if both have the same bytes.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.size() == other.size()
            && matches!((self.sha256(), other.sha256()), (Ok(one), Ok(two)) if one == two)
    }

    fn reader(&self) -> io::Result<DataReader<'_>> {
        let (source, size) = match self {
            Self::Bytes(bytes) => (DataSource::Bytes(bytes), bytes.len() as u64),
            Self::Part { file, offset, size } => (DataSource::Part(file, *offset), *size),
            Self::Path { path, size } => (DataSource::Own(open(path)?), *size),
        };
        Ok(DataReader {
            source,
            size,
            at: 0,
        })
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Reads from the beginning of the data to its end.
struct DataReader<'a> {
    source: DataSource<'a>,
    size: u64,
    at: u64,
}

enum DataSource<'a> {
    Bytes(&'a [u8]),
    Part(&'a File, u64),
    Own(File),
}

impl Read for DataReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.at);
        let most = left.min(out.len() as u64) as usize;
        let out = &mut out[..most];
        let read = match &self.source {
            DataSource::Bytes(bytes) => {
                let from = self.at as usize;
                out.copy_from_slice(&bytes[from..from + most]);
                most
            }
            DataSource::Part(file, offset) => file.read_at(out, offset + self.at)?,
            DataSource::Own(file) => file.read_at(out, self.at)?,
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for DataReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_the_same_wherever_they_are() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x");
        std::fs::write(&path, "..abc..").expect("writes");
        let file = Arc::new(File::open(&path).expect("opens"));
        let (offset, size) = (2, 3);
        let part = Data::Part { file, offset, size };
        let bytes = Data::Bytes(b"abc".to_vec());
        assert!(part.is_same(&bytes));
        assert_eq!(
            part.md5().expect("reads"),
            crate::debian::digest::md5(b"abc")
        );
        let whole = Data::Path { path, size: 7 };
        assert!(!whole.is_same(&part));
        let mut copy = Vec::new();
        whole.copy_to(&mut copy).expect("copies");
        assert_eq!(copy, b"..abc..");
    }

    #[test]
    fn a_file_that_became_shorter_or_went_is_an_error() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x");
        std::fs::write(&path, "abc").expect("writes");
        let data = Data::Path { path, size: 4 };
        assert!(data.sha256().is_err());
        let path = folder.path().join("none");
        let error = Data::Path { path, size: 4 }.sha256().expect_err("fails");
        assert!(error.to_string().contains("none"));
    }

    #[test]
    fn a_program_s_needs_are_read_without_all_of_it() {
        let path = std::env::current_exe().expect("own path");
        let size = path.metadata().expect("there").len();
        let needs = Data::Path { path, size }.needs().expect("reads");
        assert!(needs.expect("an ELF file").loader.is_some());
        assert_eq!(
            Data::Bytes(b"#!/bin/sh".to_vec()).needs().expect("reads"),
            None
        );
    }
}
