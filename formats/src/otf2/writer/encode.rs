//! Encoding of OTF2's numbers and records.
//!
//! A number is its number of bytes followed by these, the least significant first; zero is only the count, and 255 means a missing number. Most
//! records have their length after their kind, in one byte, or as 255 and eight bytes. Used by the writers of definitions and events.

/// Marks a missing number.
const UNDEFINED: u8 = 0xff;

/// The content of a record.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordContent(Vec<u8>);

impl RecordContent {
    /// Clears it.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Appends a byte.
    pub(super) fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    /// Appends a number.
    pub(super) fn number(&mut self, value: impl Into<u64>) -> &mut Self {
        let value = value.into();
        let bytes = 8 - value.leading_zeros() as usize / 8;
        self.0.push(bytes as u8);
        self.0.extend_from_slice(&value.to_le_bytes()[..bytes]);
        self
    }

    /// Appends a number, if present.
    pub(super) fn perhaps(&mut self, value: Option<u32>) -> &mut Self {
        match value {
            Some(value) => self.number(value),
            None => self.byte(UNDEFINED),
        }
    }

    /// Appends a text. The part after a zero byte in it is lost.
    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        let value = value.split('\0').next().unwrap_or_default();
        self.0.extend_from_slice(value.as_bytes());
        self.byte(0)
    }

    /// Appends it as a record with its length.
    pub(super) fn put(&self, kind: u8, out: &mut Vec<u8>) {
        out.push(kind);
        match u8::try_from(self.0.len()) {
            Ok(length) if length < u8::MAX => out.push(length),
            _ => {
                out.push(u8::MAX);
                out.extend_from_slice(&(self.0.len() as u64).to_le_bytes());
            }
        }
        out.extend_from_slice(&self.0);
    }

    /// Appends it as a record of a kind without a length.
    pub(super) fn put_bare(&self, kind: u8, out: &mut Vec<u8>) {
        out.push(kind);
        out.extend_from_slice(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        let mut fields = RecordContent::default();
        fields
            .number(0u32)
            .number(7u32)
            .number(256u32)
            .perhaps(None);
        fields.number(u64::MAX).text("a\0b");
        let expected = [
            0, 1, 7, 2, 0, 1, 255, 8, 255, 255, 255, 255, 255, 255, 255, 255, b'a', 0,
        ];
        assert_eq!(fields.0, expected);
    }

    #[test]
    fn long_records_have_long_lengths() {
        let mut fields = RecordContent::default();
        fields.text(&"x".repeat(299));
        let mut out = Vec::new();
        fields.put(10, &mut out);
        assert_eq!(out[..10], [10, 255, 0x2c, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(out.len(), 310);
    }
}
