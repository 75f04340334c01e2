//! The binary encoding of records, which is the encoding of `belljar-codec`.
//!
//! Decoding takes at most a limited amount of memory, even if the bytes claim enormous lengths. Used where traces are written and
//! read, and where a tracer's state is saved.

use bincode::{Decode, Encode, Encoding};

/// Most memory that decoding one chunk may take, in bytes, since hostile lengths ask for more.
const DECODE_LIMIT: usize = 256 << 20;

/// Most memory that one byte of a record may expand to, estimated generously: one byte encodes an event without accounts.
const MOST_GROWTH: usize = 128;

type Limited = Encoding<DECODE_LIMIT>;

/// Bytes that are not an encoded record.
#[derive(Debug, thiserror::Error)]
#[error("these bytes are no record that can be read: {0}")]
pub struct CodecError(String);

/// Appends `record` to `into`. Returns the number of bytes.
pub fn encode<T: Encode>(record: &T, into: &mut Vec<u8>) -> Result<usize, CodecError> {
    Limited::encode(record, into).map_err(|error| CodecError(error.to_string()))
}

/// Checks that `bytes`, which were [encoded](encode), can be decoded as a `T`. Decodes long inputs to find out; returns at once for
/// short ones.
pub fn check<T: Decode<()>>(bytes: &[u8]) -> Result<(), CodecError> {
    if bytes.len() <= DECODE_LIMIT / MOST_GROWTH {
        return Ok(());
    }
    decode::<T>(bytes).map(drop)
}

/// Decodes the record at the start of `bytes`. Also returns its number of bytes.
pub fn decode_first<T: Decode<()>>(bytes: &[u8]) -> Result<(T, usize), CodecError> {
    Limited::decode(bytes).map_err(|error| CodecError(error.to_string()))
}

/// Decodes a record that fills the whole of `bytes`.
pub fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T, CodecError> {
    let (record, used) = decode_first(bytes)?;
    if used == bytes.len() {
        Ok(record)
    } else {
        Err(CodecError(format!(
            "{} bytes follow the record",
            bytes.len() - used
        )))
    }
}

/// Encodes a part of a record as nothing. The part is a type of one field with a default, and is encoded elsewhere or not at all.
#[macro_export]
macro_rules! not_encoded {
    ($part:ident) => {
        impl bincode::Encode for $part {
            fn encode<E: bincode::enc::Encoder>(
                &self,
                _: &mut E,
            ) -> Result<(), bincode::error::EncodeError> {
                Ok(())
            }
        }

        impl<C> bincode::Decode<C> for $part {
            fn decode<D: bincode::de::Decoder<Context = C>>(
                _: &mut D,
            ) -> Result<Self, bincode::error::DecodeError> {
                Ok(Self::default())
            }
        }

        impl<'de, C> bincode::BorrowDecode<'de, C> for $part {
            fn borrow_decode<D: bincode::de::BorrowDecoder<'de, Context = C>>(
                _: &mut D,
            ) -> Result<Self, bincode::error::DecodeError> {
                Ok(Self::default())
            }
        }
    };
}
pub use not_encoded;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_decoded_is_found_by_its_writer() {
        // A byte each says that they are absent; in memory they take their full size.
        type Absent = Vec<Option<[u64; MOST_GROWTH]>>;
        let mut bytes = Vec::new();
        let most = DECODE_LIMIT / size_of::<Option<[u64; MOST_GROWTH]>>();
        encode(&vec![0_u8; most], &mut bytes).unwrap();
        assert!(check::<Absent>(&bytes).is_ok());
        bytes.clear();
        encode(&vec![0_u8; DECODE_LIMIT / MOST_GROWTH], &mut bytes).unwrap();
        let error = check::<Absent>(&bytes).unwrap_err();
        assert!(error.to_string().contains("256 MiB"), "{error}");
    }
}
