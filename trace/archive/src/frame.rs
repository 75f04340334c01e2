//! Chunks in a file: kind, length, checksum, payload.
//!
//! A chunk is a kind (one byte), the length of its payload, a CRC-32 of kind, length and payload (32 bits each, little
//! endian), and the payload. Memory grows with the bytes actually read, so a false length costs nothing. Used by the
//! writer and the readers.

use std::io::{Read, Seek, SeekFrom};

/// Bytes before a payload.
pub(crate) const HEAD: usize = 1 + 4 + 4;

/// Most bytes of a payload, packed or unpacked.
pub(crate) const MOST: usize = 64 << 20;

/// The kind of a chunk, by its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChunkKind {
    /// Data that precedes the first call.
    Header = 0,
    /// The end, with the tracers' summaries.
    Footer = 1,
    /// New signatures.
    Dictionary = 2,
    /// The sequences of calls of each thread, as a grammar.
    Structure = 3,
    /// Pointers and other words that differ from call to call.
    Operands = 4,
    /// Entry and exit times of calls, and their order in the file.
    Times = 5,
    /// Records of probes, in a separate file.
    Probes = 6,
}

impl ChunkKind {
    fn of(byte: u8) -> Option<Self> {
        use ChunkKind::{Dictionary, Footer, Header, Operands, Probes, Structure, Times};
        [
            Header, Footer, Dictionary, Structure, Operands, Times, Probes,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// Appends a chunk.
pub(crate) fn put(into: &mut Vec<u8>, kind: ChunkKind, payload: &[u8]) {
    let start = into.len();
    into.push(kind as u8);
    into.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    let checksum = checksum(&into[start..], payload);
    into.extend_from_slice(&checksum.to_le_bytes());
    into.extend_from_slice(payload);
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// A chunk's kind and, if wanted, its payload.
pub(crate) struct Chunk {
    pub(crate) kind: ChunkKind,
    pub(crate) payload: Option<Vec<u8>>,
    /// Bytes in the file, including the head.
    pub(crate) length: u64,
}

/// Checks that a file consists of whole chunks from the current position to the offset `end`. Returns the fault, if
/// any.
pub(crate) fn verify(file: &mut (impl Read + Seek), end: u64) -> Result<(), String> {
    let mut at = file.stream_position().map_err(|error| error.to_string())?;
    while at < end {
        let chunk = take(file, |_| true).map_err(|reason| format!("at byte {at}, {reason}"))?;
        let chunk = chunk.ok_or_else(|| format!("it ends at byte {at}"))?;
        at += chunk.length;
    }
    match at == end {
        true => Ok(()),
        false => Err(format!("a chunk has another length before byte {at}")),
    }
}

/// Reads a chunk, or skips its payload if its kind is not `wanted`; `None` at the file's end.
pub(crate) fn take(
    file: &mut (impl Read + Seek),
    wanted: impl Fn(ChunkKind) -> bool,
) -> Result<Option<Chunk>, String> {
    let mut head = Vec::with_capacity(HEAD);
    let failed = |error: std::io::Error| error.to_string();
    file.take(HEAD as u64)
        .read_to_end(&mut head)
        .map_err(failed)?;
    if head.is_empty() {
        return Ok(None);
    }
    let broken = || "it breaks off within a chunk".to_owned();
    if head.len() < HEAD {
        return Err(broken());
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let kind = ChunkKind::of(head[0]).ok_or_else(|| format!("a chunk has kind {}", head[0]))?;
    let length = word(1) as usize;
    if length > MOST {
        return Err("a chunk's length is impossible".to_owned());
    }
    let payload = if wanted(kind) {
        let mut payload = Vec::new();
        file.take(length as u64)
            .read_to_end(&mut payload)
            .map_err(failed)?;
        if payload.len() < length {
            return Err(broken());
        }
        if checksum(&head[..5], &payload) != word(5) {
            return Err("a chunk's checksum is wrong".to_owned());
        }
        Some(payload)
    } else {
        // Reads the last byte to detect a truncated chunk.
        if length > 0 {
            file.seek(SeekFrom::Current(length as i64 - 1))
                .map_err(failed)?;
            if file.read(&mut [0]).map_err(failed)? == 0 {
                return Err(broken());
            }
        }
        None
    };
    let length = (HEAD + length) as u64;
    Ok(Some(Chunk {
        kind,
        payload,
        length,
    }))
}
