//! Encoding of data for a page: numbers as bytes, packed, and written as text.
//!
//! Numbers are written with as many bytes as they need, seven bits in each (LEB128); differences that may be negative have their sign last
//! (zigzag). The page's `binary.js` reads them. Used by all parts of a page.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Numbers as bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedNumbers(Vec<u8>);

impl PackedNumbers {
    /// Appends a number.
    pub(crate) fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Appends a number that may be negative.
    pub(crate) fn push_signed(&mut self, value: i64) {
        self.push(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    /// Appends bytes, after their number.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.push(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Appends a text in the same way.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Appends other numbers.
    pub(crate) fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// Returns the packed bytes.
    pub(crate) fn packed(&self) -> Packed {
        Packed::of(&self.0)
    }
}

/// Bytes in packed form (raw DEFLATE).
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed(Vec<u8>);

impl Packed {
    /// Packs bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
        // Writing to a vector cannot fail.
        let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
        Self(written.unwrap_or_default())
    }

    /// Returns its size in a page, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.len().div_ceil(3) * 4
    }

    /// Writes it as an element of a page, which the page's script finds by `name`. Base64 has no character that ends an element.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub(crate) fn write(&self, name: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "<script type=\"application/octet-stream\" id=\"{name}\">{}</script>",
            STANDARD.encode(&self.0)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn numbers_are_as_long_as_they_need() {
        let mut numbers = PackedNumbers::default();
        numbers.push(127);
        numbers.push(128);
        numbers.push_signed(-1);
        numbers.push_signed(i64::MIN);
        numbers.text("ab");
        let mut expected = vec![127, 0x80, 1, 1];
        expected.extend([0xff; 9]);
        expected.extend([1, 2, b'a', b'b']);
        assert_eq!(numbers.0, expected);
    }

    #[test]
    fn what_is_packed_is_the_same_again() {
        let bytes: Vec<u8> = (0..10_000).map(|byte| (byte % 7) as u8).collect();
        let packed = Packed::of(&bytes);
        let mut unpacked = Vec::new();
        let mut decoder = flate2::read::DeflateDecoder::new(&packed.0[..]);
        decoder.read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, bytes);
        assert!(packed.size() < 1000);
    }
}
