//! The binary form of saved state: the encoding of `belljar-codec`, with serde's data model.
//!
//! Decoding uses bounded memory, even for hostile lengths. Used for checkpoints, snapshots and messages
//! between hosts of a run.

use bincode::Encoding;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Memory limit for decoding one record, in bytes, against hostile lengths.
const DECODE_LIMIT: usize = 1 << 30;

/// Most memory per byte of a record: a 128-bit number.
const MOST_GROWTH: usize = 16;

type Limited = Encoding<DECODE_LIMIT>;

/// An error of encoding or decoding state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The state is larger than can be decoded.
    #[error("this state cannot be saved: {0}")]
    Encode(String),
    /// The bytes are of another kind or version.
    #[error("these bytes are not saved state: {0}")]
    Decode(String),
}

/// Encodes `record`. The result may be too large for [`decode`]: see [`check`].
///
/// # Errors
/// When it cannot be encoded.
pub fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, CodecError> {
    Limited::encode_state(record).map_err(|error| CodecError::Encode(error.to_string()))
}

/// Checks that `bytes`, which were [encoded](encode), can be decoded as a `T`. Takes as long as decoding
/// them if they are many, and no time if they are few.
///
/// # Errors
/// When they cannot.
pub fn check<T: DeserializeOwned>(bytes: &[u8]) -> Result<(), CodecError> {
    if bytes.len() <= DECODE_LIMIT / MOST_GROWTH {
        return Ok(());
    }
    decode::<T>(bytes)
        .map(drop)
        .map_err(|error| CodecError::Encode(error.to_string()))
}

/// Decodes the record that is the whole of `bytes`.
///
/// # Errors
/// When they are not such a record.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (record, used) =
        Limited::decode_state(bytes).map_err(|error| CodecError::Decode(error.to_string()))?;
    if used == bytes.len() {
        Ok(record)
    } else {
        let more = bytes.len() - used;
        Err(CodecError::Decode(format!(
            "{more} bytes follow the record"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_decoded_is_found_by_its_writer() {
        // Each number takes 1 byte, and 16 bytes of memory, which this type does not keep.
        let most = DECODE_LIMIT / MOST_GROWTH;
        for (count, fits) in [(1 << 20, true), (most + 1, false)] {
            let mut bytes = vec![0; LENGTH + count];
            bytes[0] = 253;
            bytes[1..LENGTH].copy_from_slice(&(count as u64).to_le_bytes());
            let checked = check::<Numbers>(&bytes);
            assert_eq!(checked.is_ok(), fits, "{checked:?}");
            let told = checked.map_or_else(|error| error.to_string(), |()| String::new());
            assert!(fits || told.contains("1024 MiB"), "{told}");
        }
    }

    /// Bytes of a length in its longest form.
    const LENGTH: usize = 9;

    /// Any number of 128-bit numbers, which are read and dropped.
    struct Numbers;

    impl<'a> serde::Deserialize<'a> for Numbers {
        fn deserialize<D: serde::Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_seq(Numbers)
        }
    }

    impl<'a> serde::de::Visitor<'a> for Numbers {
        type Value = Self;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("numbers")
        }

        fn visit_seq<A: serde::de::SeqAccess<'a>>(self, mut from: A) -> Result<Self, A::Error> {
            while from.next_element::<u128>()?.is_some() {}
            Ok(self)
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_else_is() {
        let record = (7u64, "text".to_owned(), Some(vec![1u8, 2]));
        let mut bytes = encode(&record).unwrap();
        assert_eq!(decode::<(u64, String, Option<Vec<u8>>)>(&bytes), Ok(record));
        bytes.push(0);
        assert!(decode::<(u64, String, Option<Vec<u8>>)>(&bytes).is_err());
        // A length of 2^60.
        assert!(decode::<Vec<u8>>(&[253, 0, 0, 0, 0, 0, 0, 0, 16]).is_err());
    }
}
