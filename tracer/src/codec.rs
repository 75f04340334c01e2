//! The binary encoding of records: bincode's standard one (variable-length integers,
//! little endian), of which nothing outside this module knows.

use bincode::config::{self, Configuration, Limit, LittleEndian, Varint};
use bincode::{Decode, Encode};

/// Most memory that decoding one chunk may take, in bytes: hostile lengths ask for more.
const DECODE_LIMIT: usize = 256 << 20;

const CONFIGURATION: Configuration<LittleEndian, Varint, Limit<DECODE_LIMIT>> =
    config::standard().with_limit::<DECODE_LIMIT>();

/// Bytes that are not an encoded record.
#[derive(Debug, thiserror::Error)]
#[error("these bytes are not a record of a trace: {0}")]
pub(crate) struct CodecError(String);

/// Appends `record` to `into`. Returns the number of bytes.
pub(crate) fn encode<T: Encode>(record: &T, into: &mut Vec<u8>) -> Result<usize, CodecError> {
    bincode::encode_into_std_write(record, into, CONFIGURATION)
        .map_err(|error| CodecError(error.to_string()))
}

/// Decodes a record that fills the whole of `bytes`.
pub(crate) fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T, CodecError> {
    let (record, used) = bincode::decode_from_slice(bytes, CONFIGURATION)
        .map_err(|error| CodecError(error.to_string()))?;
    if used == bytes.len() {
        Ok(record)
    } else {
        Err(CodecError(format!(
            "{} bytes follow the record",
            bytes.len() - used
        )))
    }
}
