//! Compressed streams, detected by their first bytes.
//!
//! The size of the output and the memory of every decoder are bounded.

use std::io::{self, BufRead, BufReader, Read};

use sha2::{Digest, Sha256};

use super::error::MOST_BYTES;

/// Most memory of an xz decoder, in KiB; `xz -9` needs 64 MiB.
pub(super) const XZ_MEMORY_KIB: u32 = 256 << 10;
/// Largest window of a zstd stream, as a power of two; `zstd --ultra -22` needs 27.
const ZSTD_WINDOW_LOG: u32 = 27;

/// A stream's compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
}

impl Compression {
    /// Detects the compression from a stream's first bytes.
    pub(super) fn of(first: &[u8]) -> Self {
        match first {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // Output of `pzstd` and `zstd:chunked` begins with a skippable frame.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// A stream's bytes, unpacked if they are compressed.
///
/// # Errors
/// When a first byte can't be read or a decoder can't start.
pub(super) fn unpacked<'a>(input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    // A read may return fewer bytes than requested; the bytes read so far are put in front again.
    let mut first = Vec::new();
    input.by_ref().take(6).read_to_end(&mut first)?;
    let compression = Compression::of(&first);
    let input = BufReader::with_capacity(1 << 16, io::Cursor::new(first).chain(input));
    Ok(match compression {
        Compression::None => bounded(input),
        Compression::Gzip => bounded(flate2::bufread::MultiGzDecoder::new(input)),
        Compression::Xz => bounded(lzma_rust2::XzReader::new_mem_limit(
            input,
            true,
            XZ_MEMORY_KIB,
        )),
        Compression::Zstd => bounded(zstd_decoder(input)?),
    })
}

fn zstd_decoder<'a, R: BufRead + 'a>(input: R) -> io::Result<impl Read + 'a> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    Ok(decoder)
}

fn bounded<'a>(input: impl Read + 'a) -> Box<dyn Read + 'a> {
    Box::new(Bounded {
        input,
        left: MOST_BYTES,
    })
}

/// Fails after a number of bytes, against decompression bombs.
struct Bounded<R> {
    input: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other("it unpacks to more than 1 TiB")),
        }
        Ok(count)
    }
}

/// Passes data on, and computes their digest and size.
pub(super) struct Hashed<R> {
    input: R,
    hash: Sha256,
    count: u64,
}

impl<R: Read> Hashed<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            hash: Sha256::new(),
            count: 0,
        }
    }

    /// Reads to the end, and returns the digest in hexadecimal and the number of bytes.
    pub(super) fn finish(&mut self) -> io::Result<(String, u64)> {
        io::copy(self, &mut io::sink())?;
        Ok((hex(&self.hash.clone().finalize()), self.count))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.count += count as u64;
        Ok(count)
    }
}

/// Bytes in lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
