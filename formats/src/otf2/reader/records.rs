//! Files of records in chunks, as OTF2 has them.
//!
//! All chunks except the last have the length declared in the anchor. A chunk begins with its byte order and the numbers of its first and last event, and has
//! whole records. Most records contain their length, so that records of later formats can be skipped. One chunk is in memory. Used by the readers of
//! definitions and of events.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::builder::{ImportError, failed};
use belljar_files::open_input;

/// The beginning of a chunk: its kind, and the byte order.
const CHUNK_HEAD: u8 = 3;
const LITTLE: u8 = b'B';
const BIG: u8 = b'#';
/// Bytes of the head.
const HEAD: usize = 18;
const END_OF_CHUNK: u8 = 0;
const END_OF_FILE: u8 = 2;
/// Marks a length that follows in eight bytes, or a missing number.
const LONG: u8 = 0xff;

/// A file, chunk by chunk.
#[derive(Debug)]
pub(super) struct Records {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    chunk: Vec<u8>,
    /// The offset of the chunk in the file.
    start: u64,
    at: usize,
    big: bool,
}

/// The position of bytes in a chunk.
#[derive(Clone, Copy, Debug)]
struct Extent {
    from: usize,
    to: usize,
}

impl Records {
    /// Opens the file at `path`; a missing file has no records.
    pub(super) fn open(path: &Path, size: u64) -> Result<Self, ImportError> {
        let file = match open_input(path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(path)(error)),
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            size,
            chunk: Vec::new(),
            start: 0,
            at: 0,
            big: false,
        })
    }

    /// True if the file exists.
    pub(super) fn is_there(&self) -> bool {
        self.file.is_some()
    }

    /// Reads the kind of the next record, whose content is to be read next; `None` at the end.
    pub(super) fn kind(&mut self) -> Result<Option<u8>, ImportError> {
        loop {
            match self.chunk.get(self.at).copied() {
                None | Some(END_OF_CHUNK) => {
                    if !self.next_chunk()? {
                        return Ok(None);
                    }
                }
                Some(END_OF_FILE) => return Ok(None),
                Some(kind) => {
                    self.at += 1;
                    return Ok(Some(kind));
                }
            }
        }
    }

    fn next_chunk(&mut self) -> Result<bool, ImportError> {
        let Some(file) = &mut self.file else {
            return Ok(false);
        };
        self.start += self.chunk.len() as u64;
        self.chunk.clear();
        self.at = 0;
        let read = file.take(self.size).read_to_end(&mut self.chunk);
        if read.map_err(failed(&self.path))? == 0 {
            return Ok(false);
        }
        self.big = match (self.chunk.first(), self.chunk.get(1)) {
            (Some(&CHUNK_HEAD), Some(&LITTLE)) => false,
            (Some(&CHUNK_HEAD), Some(&BIG)) => true,
            _ => return Err(self.damaged("no chunk begins here")),
        };
        if self.chunk.len() < HEAD {
            return Err(self.damaged("the chunk ends early"));
        }
        self.at = HEAD;
        Ok(true)
    }

    /// Creates an error at the position of the last read.
    pub(super) fn damaged(&self, reason: &str) -> ImportError {
        ImportError::Damaged {
            path: self.path.clone(),
            offset: self.start + self.at as u64,
            reason: reason.to_owned(),
        }
    }

    /// Reads the content of a record with a length.
    pub(super) fn content(&mut self) -> Result<RecordFields<'_>, ImportError> {
        let extent = self.extent()?;
        let big = self.big;
        Ok(RecordFields {
            bytes: &self.chunk[extent.from..extent.to],
            at: 0,
            big,
            place: (&self.path, self.start + extent.from as u64),
        })
    }

    /// Skips a record with a length.
    pub(super) fn skip(&mut self) -> Result<(), ImportError> {
        self.extent().map(drop)
    }

    fn extent(&mut self) -> Result<Extent, ImportError> {
        let rest = self.chunk.get(self.at..).unwrap_or_default();
        let length = match rest {
            [LONG, long @ ..] => long.first_chunk().map(|bytes| (self.fixed(*bytes), 9)),
            [length, ..] => Some((u64::from(*length), 1)),
            [] => None,
        };
        let Some((length, head)) = length else {
            return Err(self.damaged("the chunk ends in a record"));
        };
        if length > (rest.len() - head) as u64 {
            return Err(self.damaged("a record is longer than its chunk"));
        }
        let from = self.at + head;
        let to = from + length as usize;
        self.at = to;
        Ok(Extent { from, to })
    }

    fn fixed(&self, bytes: [u8; 8]) -> u64 {
        match self.big {
            true => u64::from_be_bytes(bytes),
            false => u64::from_le_bytes(bytes),
        }
    }

    /// Reads a number that is a whole record without a length.
    pub(super) fn bare_number(&mut self) -> Result<u64, ImportError> {
        let mut fields = RecordFields {
            bytes: self.chunk.get(self.at..).unwrap_or_default(),
            at: 0,
            big: self.big,
            place: (&self.path, self.start + self.at as u64),
        };
        let number = fields.number()?;
        let used = fields.at;
        self.at += used;
        Ok(number)
    }

    /// Reads a time, which has no length.
    pub(super) fn bare_time(&mut self) -> Result<u64, ImportError> {
        let rest = self.chunk.get(self.at..).unwrap_or_default();
        let Some(bytes) = rest.first_chunk().copied() else {
            return Err(self.damaged("the chunk ends in a time"));
        };
        self.at += bytes.len();
        Ok(self.fixed(bytes))
    }
}

/// The fields of a record.
#[derive(Clone, Debug)]
pub(super) struct RecordFields<'a> {
    bytes: &'a [u8],
    at: usize,
    big: bool,
    /// The position of the first byte.
    place: (&'a Path, u64),
}

impl RecordFields<'_> {
    /// Creates an error at the position of the last read.
    pub(super) fn damaged(&self, reason: &str) -> ImportError {
        ImportError::Damaged {
            path: self.place.0.to_owned(),
            offset: self.place.1 + self.at as u64,
            reason: reason.to_owned(),
        }
    }

    /// Returns the number of unread bytes.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reads a byte.
    pub(super) fn byte(&mut self) -> Result<u8, ImportError> {
        let byte = self.bytes.get(self.at).copied();
        let byte = byte.ok_or_else(|| self.damaged("a record ends early"))?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads a number, which is preceded by its number of bytes. A missing number is the greatest.
    pub(super) fn number(&mut self) -> Result<u64, ImportError> {
        let count = self.byte()?;
        if count == LONG {
            return Ok(u64::MAX);
        }
        let count = usize::from(count);
        let rest = &self.bytes[self.at..];
        let Some(bytes) = rest.get(..count).filter(|_| count <= 8) else {
            return Err(self.damaged("a number has more bytes than there can be"));
        };
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        let number = match self.big {
            true => bytes.iter().fold(0, add),
            false => bytes.iter().rev().fold(0, add),
        };
        self.at += count;
        Ok(number)
    }

    /// Reads a number of 32 bits; `None` if missing.
    pub(super) fn small(&mut self) -> Result<Option<u32>, ImportError> {
        match self.number()? {
            u64::MAX => Ok(None),
            number => match u32::try_from(number) {
                Ok(u32::MAX) => Ok(None),
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(self.damaged("a number has more than 32 bits")),
            },
        }
    }

    /// Reads a required number of 32 bits.
    pub(super) fn needed(&mut self) -> Result<u32, ImportError> {
        let number = self.small()?;
        number.ok_or_else(|| self.damaged("a number is not there"))
    }

    /// Reads eight bytes.
    pub(super) fn fixed(&mut self) -> Result<u64, ImportError> {
        let bytes = self.bytes[self.at..].first_chunk().copied();
        let bytes = bytes.ok_or_else(|| self.damaged("a record ends early"))?;
        self.at += bytes.len();
        Ok(match self.big {
            true => u64::from_be_bytes(bytes),
            false => u64::from_le_bytes(bytes),
        })
    }

    /// Reads a text, up to the zero byte after it.
    pub(super) fn text(&mut self) -> Result<String, ImportError> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == 0);
        let length = length.ok_or_else(|| self.damaged("a text has no end"))?;
        self.at += length + 1;
        Ok(String::from_utf8_lossy(&rest[..length]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8], big: bool) -> RecordFields<'_> {
        RecordFields {
            bytes,
            at: 0,
            big,
            place: (Path::new("file"), 100),
        }
    }

    #[test]
    fn numbers_are_read_in_both_orders() {
        let bytes = [0, 2, 1, 2, 0xff, 1, 7];
        for (big, second) in [(false, 0x201), (true, 0x102)] {
            let mut fields = fields(&bytes, big);
            let numbers: Vec<u64> = (0..4).map_while(|_| fields.number().ok()).collect();
            assert_eq!(numbers, [0, second, u64::MAX, 7]);
            let error = fields.number().expect_err("it is at its end");
            assert!(error.to_string().contains("byte 107"), "{error}");
        }
        assert!(
            fields(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0], false)
                .number()
                .is_err()
        );
        assert!(fields(&[8, 0], false).number().is_err());
        assert!(fields(b"abc", false).text().is_err());
    }

    #[test]
    fn a_chunk_ends_and_the_next_one_begins() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("0.evt");
        let mut bytes = Vec::new();
        for order in [LITTLE, BIG] {
            bytes.extend_from_slice(&[CHUNK_HEAD, order]);
            bytes.extend_from_slice(&[0; 16]);
            bytes.extend_from_slice(&[40, 3, 2, 0, 1]);
            bytes.resize(bytes.len().next_multiple_of(64), 0);
        }
        bytes.truncate(64 + HEAD + 5);
        bytes.extend_from_slice(&[END_OF_FILE, 1]);
        std::fs::write(&path, &bytes).expect("it is written");
        let mut records = Records::open(&path, 64).expect("it is there");
        let mut numbers = Vec::new();
        while let Some(kind) = records.kind().expect("it is sound") {
            assert_eq!(kind, 40);
            let mut content = records.content().expect("it is whole");
            numbers.push(content.number().expect("it is a number"));
            assert_eq!(content.left(), 0);
        }
        assert_eq!(numbers, [256, 1]);
    }
}
