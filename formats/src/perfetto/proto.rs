//! Messages of protocol buffers, as bytes.
//!
//! A field is its number and wire type, followed by a variable-length integer, eight bytes, or a length and its content. Used by the writer of
//! packets.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct ProtoMessage(Vec<u8>);

impl ProtoMessage {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Adds a number.
    pub(super) fn number(&mut self, field: u32, value: u64) -> &mut Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Adds a number of eight bytes.
    pub(super) fn fixed(&mut self, field: u32, value: u64) -> &mut Self {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Adds bytes.
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) -> &mut Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Adds a text.
    pub(super) fn text(&mut self, field: u32, value: &str) -> &mut Self {
        self.bytes(field, value.as_bytes())
    }

    /// Adds a nested message.
    pub(super) fn message(&mut self, field: u32, value: &Self) -> &mut Self {
        self.bytes(field, &value.0)
    }

    /// True if it is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns its bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_encoding_has_them() {
        let mut inner = ProtoMessage::default();
        inner.number(1, 150);
        let mut message = ProtoMessage::default();
        message.message(3, &inner).fixed(47, 1).text(2, "hi");
        let expected = [
            0x1a, 3, 0x08, 0x96, 1, 0xf9, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0x12, 2, b'h', b'i',
        ];
        assert_eq!(message.as_bytes(), expected);
    }
}
