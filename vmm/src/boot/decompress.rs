//! Compressed kernels: the formats that distributions use, distinguished by magic.
//!
//! Kernel files are untrusted: a broken stream is an error with its format's name, and a stream
//! unpacks to at most `MOST` bytes. `kernel` unpacks the payload of a bzImage or a packed kernel
//! with it.

use std::io::{self, Read};

/// The largest size of an unpacked kernel.
pub(super) const MOST: usize = 512 << 20;

const LZ4_LEGACY: [u8; 4] = 0x184c_2102_u32.to_le_bytes();
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ELF: [u8; 4] = *b"\x7fELF";

/// The largest unpacked size of a block of a legacy LZ4 frame.
const LZ4_BLOCK: usize = 8 << 20;
const XZ_MEMORY_KIB: u32 = 256 << 10;

/// Errors of unpacking.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// No known magic.
    #[error("it starts with {0:02x?}, which is none of LZ4, zstd, xz, gzip or plain ELF")]
    Unknown(Vec<u8>),
    /// The stream is broken.
    #[error("its {format} stream is broken: {reason}")]
    Broken {
        /// Name of the format.
        format: &'static str,
        /// The decoder's message.
        reason: String,
    },
    /// The unpacked size exceeds the limit.
    #[error("it unpacks to more than {} MiB", MOST >> 20)]
    TooLarge,
}

/// Unpacks `data` of any known format. Ignores data after the first stream (the kernel build
/// appends the unpacked size).
pub(super) fn decompress(data: &[u8]) -> Result<Vec<u8>, DecompressError> {
    if data.starts_with(&LZ4_LEGACY) {
        return lz4_legacy(&data[LZ4_LEGACY.len()..]);
    }
    if data.starts_with(&ZSTD) {
        let decoder = zstd::stream::read::Decoder::with_buffer(data)
            .map(zstd::stream::read::Decoder::single_frame);
        return read_all("zstd", decoder.map_err(|error| broken("zstd", &error))?);
    }
    if data.starts_with(&XZ) {
        return read_all(
            "xz",
            lzma_rust2::XzReader::new_mem_limit(data, false, XZ_MEMORY_KIB),
        );
    }
    if data.starts_with(&GZIP) {
        return read_all("gzip", flate2::read::GzDecoder::new(data));
    }
    if data.starts_with(&ELF) {
        return Ok(data.to_vec());
    }
    Err(DecompressError::Unknown(
        data.iter().take(6).copied().collect(),
    ))
}

fn read_all(format: &'static str, reader: impl Read) -> Result<Vec<u8>, DecompressError> {
    let mut bytes = Vec::new();
    let count = reader
        .take(MOST as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error: io::Error| broken(format, &error))?;
    if count > MOST {
        Err(DecompressError::TooLarge)
    } else {
        Ok(bytes)
    }
}

/// Unpacks blocks, each a length and LZ4 data; the kernel build puts the unpacked size, four bytes,
/// after the last.
fn lz4_legacy(mut data: &[u8]) -> Result<Vec<u8>, DecompressError> {
    const FORMAT: &str = "LZ4";
    let mut bytes = Vec::new();
    let mut block = vec![0; LZ4_BLOCK];
    while let Some((length, rest)) = data
        .split_first_chunk::<4>()
        .filter(|(_, rest)| !rest.is_empty())
    {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((packed, rest)) = rest.split_at_checked(length) else {
            return Err(broken(
                FORMAT,
                &format!("a block of {length} bytes goes past the end"),
            ));
        };
        let count = lz4_flex::block::decompress_into(packed, &mut block)
            .map_err(|error| broken(FORMAT, &error))?;
        if bytes.len() + count > MOST {
            return Err(DecompressError::TooLarge);
        }
        bytes.extend_from_slice(&block[..count]);
        data = rest;
    }
    Ok(bytes)
}

fn broken(format: &'static str, reason: &dyn ToString) -> DecompressError {
    DecompressError::Broken {
        format,
        reason: reason.to_string(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn sample() -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..3_000_000u32)
            .map(|index| (index.wrapping_mul(index) >> 9) as u8)
            .collect();
        bytes[..4].copy_from_slice(&ELF);
        bytes
    }

    pub(crate) fn pack_lz4(bytes: &[u8]) -> Vec<u8> {
        let mut packed = LZ4_LEGACY.to_vec();
        for chunk in bytes.chunks(LZ4_BLOCK) {
            let block = lz4_flex::block::compress(chunk);
            packed.extend_from_slice(&(block.len() as u32).to_le_bytes());
            packed.extend_from_slice(&block);
        }
        packed.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        packed
    }

    fn packed() -> Vec<(&'static str, Vec<u8>)> {
        let plain = sample();
        let size = (plain.len() as u32).to_le_bytes();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        let mut zstd = zstd::encode_all(&plain[..], 1).unwrap();
        zstd.extend_from_slice(&size);
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        xz.write_all(&plain).unwrap();
        let mut xz = xz.finish().unwrap();
        xz.extend_from_slice(&size);
        vec![
            ("LZ4", pack_lz4(&plain)),
            ("gzip", gzip.finish().unwrap()),
            ("zstd", zstd),
            ("xz", xz),
        ]
    }

    #[test]
    fn every_format_unpacks_and_breaks_with_its_name() {
        for (name, packed) in packed() {
            assert!(decompress(&packed).unwrap() == sample(), "{name}");
            let cut = decompress(&packed[..packed.len() / 2]).unwrap_err();
            assert!(cut.to_string().contains(name), "{name}: {cut}");
        }
        let unknown = decompress(b"BZh91AY").unwrap_err().to_string();
        assert!(unknown.contains("42, 5a"), "{unknown}");
    }

    #[test]
    fn a_bomb_is_stopped() {
        let zeros = vec![0; LZ4_BLOCK];
        let block = lz4_flex::block::compress(&zeros);
        let mut bomb = LZ4_LEGACY.to_vec();
        for _ in 0..=MOST / LZ4_BLOCK {
            bomb.extend_from_slice(&(block.len() as u32).to_le_bytes());
            bomb.extend_from_slice(&block);
        }
        assert!(matches!(decompress(&bomb), Err(DecompressError::TooLarge)));
    }

    proptest! {
        #[test]
        fn noise_is_refused_not_unwound(kind in 0usize..4, noise in proptest::collection::vec(any::<u8>(), 0..300)) {
            let magic: &[u8] = [&LZ4_LEGACY[..], &ZSTD, &XZ, &GZIP][kind];
            let _ = decompress(&[magic, &noise].concat());
        }
    }
}
