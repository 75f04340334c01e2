//! The binary form of saved state: bincode's standard encoding (variable-length integers,
//! little endian) of serde's data model, of which nothing outside this module knows.

use bincode::config::{self, Configuration, Limit, LittleEndian, Varint};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most memory that decoding one record may take, in bytes: hostile lengths ask for more.
const DECODE_LIMIT: usize = 1 << 30;

const CONFIGURATION: Configuration<LittleEndian, Varint, Limit<DECODE_LIMIT>> =
    config::standard().with_limit::<DECODE_LIMIT>();

/// State that cannot be saved, or bytes that are not saved state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The state is larger than can be read again.
    #[error("this state cannot be saved: {0}")]
    Encode(String),
    /// Bytes of something else, or of another version.
    #[error("these bytes are not saved state: {0}")]
    Decode(String),
}

/// The bytes of `record`.
///
/// # Errors
/// When it is larger than what [`decode`] takes.
pub fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, CodecError> {
    bincode::serde::encode_to_vec(record, CONFIGURATION)
        .map_err(|error| CodecError::Encode(error.to_string()))
}

/// The record that fills the whole of `bytes`.
///
/// # Errors
/// When they are anything else.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (record, used) = bincode::serde::decode_from_slice(bytes, CONFIGURATION)
        .map_err(|error| CodecError::Decode(error.to_string()))?;
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
