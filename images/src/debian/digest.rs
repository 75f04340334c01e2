//! The two digests that Debian uses, as hexadecimal text.
//!
//! SHA-256 identifies recipes, images and packages; MD5 is used only for dpkg's lists of files. Called
//! wherever this crate identifies content.

use std::io::{self, Write};

use md5::Md5;
use sha2::{Digest, Sha256};

/// A SHA-256 over several chunks.
#[derive(Default)]
pub(crate) struct Sha256Hex(Sha256);

impl Sha256Hex {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Hashes the length as well, so that different lists of chunks have different digests.
    pub(crate) fn update_sized(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

impl Write for Sha256Hex {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An MD5 over several chunks.
#[derive(Default)]
pub(crate) struct Md5Hex(Md5);

impl Md5Hex {
    pub(crate) fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

impl Write for Md5Hex {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
pub(crate) fn md5(bytes: &[u8]) -> String {
    hex(&Md5::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes
        .iter()
        .flat_map(|&byte| [digit(byte >> 4), digit(byte)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_agree_with_the_published_vectors() {
        assert_eq!(md5(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), expected);
    }

    #[test]
    fn pieces_do_not_run_together() {
        let of = |pieces: &[&[u8]]| {
            let mut hash = Sha256Hex::default();
            pieces.iter().for_each(|piece| hash.update_sized(piece));
            hash.finish()
        };
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
    }
}
