//! The anchor file: an archive's version, and the length of its chunks.
//!
//! Read first.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::builder::{ImportError, failed};
use crate::otf2::numbers::{NOT_COMPRESSED, POSIX};
use belljar_files::open_input;

/// The first bytes of an anchor, after the byte for the byte order.
const MAGIC: &[u8] = b"OTF2";
/// Least and most bytes of a chunk.
const CHUNK: (u64, u64) = (64, 16 << 20);
/// Bytes of an anchor that are examined.
const LONGEST: u64 = 1 << 16;
/// Characters of the writer's name that are shown.
const WRITER: usize = 80;

/// The contents of the anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) event_chunk: u64,
    pub(super) definition_chunk: u64,
    pub(super) creator: String,
}

/// True if a file with this beginning is an anchor.
pub(crate) fn is_anchor(start: &[u8]) -> bool {
    start.get(2..2 + MAGIC.len()) == Some(MAGIC)
}

impl Anchor {
    pub(super) fn read(path: &Path) -> Result<Self, ImportError> {
        let mut bytes = Vec::new();
        let file = open_input(path).map_err(failed(path))?;
        let read = file.take(LONGEST).read_to_end(&mut bytes);
        read.map_err(failed(path))?;
        Self::of(&bytes).map_err(|(offset, reason)| ImportError::Damaged {
            path: path.to_owned(),
            offset,
            reason,
        })
    }

    fn of(bytes: &[u8]) -> Result<Self, (u64, String)> {
        let says = |offset, reason: &str| (offset, reason.to_owned());
        if !is_anchor(bytes) {
            return Err(says(0, "it is no anchor of an OTF2 archive"));
        }
        let big = bytes[1] == b'#';
        let length = |at: usize| -> Result<u64, (u64, String)> {
            let found: Option<[u8; 8]> = bytes.get(at..at + 8).and_then(|it| it.try_into().ok());
            let found = found.ok_or_else(|| says(at as u64, "it ends early"))?;
            Ok(match big {
                true => u64::from_be_bytes(found),
                false => u64::from_le_bytes(found),
            })
        };
        let (event_chunk, definition_chunk) = (length(12)?, length(20)?);
        for (at, chunk) in [(12, event_chunk), (20, definition_chunk)] {
            if !(CHUNK.0..=CHUNK.1).contains(&chunk) {
                return Err((at, format!("it says that chunks have {chunk} bytes")));
            }
        }
        let kind = |at: usize| bytes.get(at).copied().unwrap_or(0);
        if kind(28) != POSIX {
            return Err(says(
                28,
                "its files are in a container of SIONlib; convert it with otf2-convert, or write it with the POSIX substrate",
            ));
        }
        if kind(29) > NOT_COMPRESSED {
            return Err(says(29, "its files are compressed, which is not read"));
        }
        // The numbers of locations and global definitions come here, followed by the machine, the writer, and a
        // description.
        let texts = bytes.get(46..).unwrap_or_default();
        let mut texts = texts.split(|byte| *byte == 0);
        let creator = texts.nth(1).unwrap_or_default();
        Ok(Self {
            event_chunk,
            definition_chunk,
            creator: String::from_utf8_lossy(creator).into_owned(),
        })
    }

    /// Returns the writer's name, shortened, as some writers append their compilers.
    pub(super) fn writer(&self) -> String {
        let line = self.creator.trim().lines().next().unwrap_or_default();
        let shown = line.chars().filter(|it| !it.is_control());
        let shown: String = shown.take(WRITER).collect();
        match shown.trim() {
            "" => "another program".to_owned(),
            writer => writer.to_owned(),
        }
    }
}

/// Returns the anchor of the archive in a folder, if there is just one.
pub(crate) fn anchor_in(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut anchors = paths.filter(|path| path.extension().is_some_and(|it| it == "otf2"));
    match (anchors.next(), anchors.next()) {
        (Some(anchor), None) => Some(anchor),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor() -> Vec<u8> {
        let mut bytes = b"\x03BOTF2\0\x03\x02\x03\0\0".to_vec();
        bytes.extend_from_slice(&(1u64 << 20).to_le_bytes());
        bytes.extend_from_slice(&(4u64 << 20).to_le_bytes());
        bytes.extend_from_slice(&[POSIX, NOT_COMPRESSED]);
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend_from_slice(b"host\0Score-P 8.4\0\0");
        bytes
    }

    #[test]
    fn anchors_tell_chunks_and_writers() {
        let anchor = Anchor::of(&anchor()).expect("it is an anchor");
        assert_eq!(anchor.event_chunk, 1 << 20);
        assert_eq!(anchor.definition_chunk, 4 << 20);
        assert_eq!(anchor.writer(), "Score-P 8.4");
    }

    #[test]
    fn a_writer_is_one_line_that_does_nothing_to_a_terminal() {
        let mut anchor = Anchor::of(&anchor()).expect("it is an anchor");
        let writers = [
            ("APEX 0.1\nC++ Standard : 201703\n", "APEX 0.1"),
            ("\n  \x1b[31mTool\x07 2\r\n", "[31mTool 2"),
            (" \n", "another program"),
        ];
        for (creator, shown) in writers {
            anchor.creator = creator.to_owned();
            assert_eq!(anchor.writer(), shown);
        }
        anchor.creator = "x".repeat(1000);
        assert_eq!(anchor.writer().len(), WRITER);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (at, value) in [(28, 2), (29, 2), (19, 1), (3, b'x')] {
            let mut bytes = anchor();
            bytes[at] = value;
            assert!(Anchor::of(&bytes).is_err(), "byte {at}");
        }
        let mut bytes = anchor();
        bytes.truncate(20);
        assert_eq!(Anchor::of(&bytes).map_err(|(at, _)| at), Err(20));
    }
}
