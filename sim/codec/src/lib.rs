//! The binary encoding of records and of saved state: bincode's standard one, with limits.
//!
//! Integers are variable in length and little endian, lengths and variants are integers, and fields follow one another without names.
//! docs/trace-format.md describes the bytes. Called by `belljar_trace::codec` for records of traces and by `belljar_sim::codec` for saved state.
//!
//! # The package bincode
//!
//! This crate alone depends on it. Other crates depend on this one, under the name `bincode`, because the derive macros of `Encode` and `Decode` generate
//! code with that name. Its authors ended development in 2025 (RUSTSEC-2025-0141: unmaintained, without a known fault). Belljar pins version 2.0.1:
//!
//! - All formats on disk and between hosts use this encoding, and version 2.0.1 has all features that they need.
//! - Its `unsafe` blocks convert arrays and vectors of bytes. Each decoding here has a memory limit, and fuzzing covers the readers.
//! - Tests of `xtask` read `Cargo.lock`: only this crate depends on bincode, and no other widely used unmaintained package is present.
//!
//! If a fault is found, replace the `pub use` below by traits and a derive macro with the same names in this crate. The tests here pin the encoding of each
//! kind of field, and `cargo xtask frozen` that of whole traces. No other crate changes.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::error::DecodeError;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use bincode::serde as by_serde;
pub use bincode::{BorrowDecode, Decode, Encode, config, de, enc, error};

/// An error of encoding or decoding a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EncodingError(String);

/// The encoding, with a memory limit for decoding: a record uses at most `LIMIT` bytes, against hostile lengths.
pub struct Encoding<const LIMIT: usize>;

impl<const LIMIT: usize> Encoding<LIMIT> {
    const CONFIGURATION: Configuration<LittleEndian, Varint, Limit<LIMIT>> =
        config::standard().with_limit::<LIMIT>();

    /// Appends `record` to `into`. Returns the number of bytes.
    ///
    /// # Errors
    /// A part of the record has no encoding.
    pub fn encode<T: Encode>(record: &T, into: &mut Vec<u8>) -> Result<usize, EncodingError> {
        bincode::encode_into_std_write(record, into, Self::CONFIGURATION)
            .map_err(|error| EncodingError(error.to_string()))
    }

    /// Decodes the record at the beginning of `bytes`. Also returns its number of bytes.
    ///
    /// # Errors
    /// The bytes are not such a record, or need more memory than the limit.
    pub fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<(T, usize), EncodingError> {
        bincode::decode_from_slice(bytes, Self::CONFIGURATION).map_err(Self::described)
    }

    /// Encodes a state with serde's data model.
    ///
    /// # Errors
    /// A part of the state has no encoding.
    pub fn encode_state<T: Serialize>(state: &T) -> Result<Vec<u8>, EncodingError> {
        by_serde::encode_to_vec(state, Self::CONFIGURATION)
            .map_err(|error| EncodingError(error.to_string()))
    }

    /// Decodes the state at the beginning of `bytes` with serde's data model. Also returns its number of bytes.
    ///
    /// # Errors
    /// The bytes are not such a state, or need more memory than the limit.
    pub fn decode_state<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, usize), EncodingError> {
        by_serde::decode_from_slice(bytes, Self::CONFIGURATION).map_err(Self::described)
    }

    fn described(error: DecodeError) -> EncodingError {
        EncodingError(match error {
            DecodeError::LimitExceeded => {
                let most = LIMIT >> 20;
                format!("they stand for more than {most} MiB of memory, which is the most")
            }
            error => error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Small = Encoding<{ 1 << 20 }>;

    /// Every kind of field in Belljar's formats.
    #[derive(Debug, PartialEq, Encode, Decode, serde::Serialize, serde::Deserialize)]
    struct Record {
        small: u64,
        medium: u64,
        large: u64,
        largest: u64,
        negative: i32,
        byte: u8,
        truth: bool,
        float: f64,
        text: String,
        list: Vec<u16>,
        absent: Option<u8>,
        present: Option<u8>,
        variant: Variant,
        pair: (u8, [u8; 2]),
    }

    #[derive(Debug, PartialEq, Encode, Decode, serde::Serialize, serde::Deserialize)]
    enum Variant {
        Plain,
        With { field: u32 },
    }

    fn record() -> Record {
        Record {
            small: 250,
            medium: 251,
            large: 1 << 16,
            largest: 1 << 32,
            negative: -2,
            byte: 255,
            truth: true,
            float: 1.0,
            text: "µ".to_owned(),
            list: vec![1, 300],
            absent: None,
            present: Some(7),
            variant: Variant::With { field: 9 },
            pair: (1, [2, 3]),
        }
    }

    /// Its encoding, one field per line, as docs/trace-format.md describes it.
    #[rustfmt::skip]
    const BYTES: &[u8] = &[
        250,
        251, 251, 0,
        252, 0, 0, 1, 0,
        253, 0, 0, 0, 0, 1, 0, 0, 0,
        3,
        255,
        1,
        0, 0, 0, 0, 0, 0, 0xf0, 0x3f,
        2, 0xc2, 0xb5,
        2, 1, 251, 44, 1,
        0,
        1, 7,
        1, 9,
        1, 2, 3,
    ];

    #[test]
    fn the_bytes_of_every_kind_of_field_are_pinned() {
        let mut bytes = Vec::new();
        assert_eq!(Small::encode(&record(), &mut bytes), Ok(BYTES.len()));
        assert_eq!(bytes, BYTES);
        assert_eq!(Small::encode_state(&record()).unwrap(), BYTES);
        let more = [BYTES, &[1, 2]].concat();
        assert_eq!(Small::decode(&more), Ok((record(), BYTES.len())));
        assert_eq!(Small::decode_state(&more), Ok((record(), BYTES.len())));
        let mut plain = Vec::new();
        Small::encode(&Variant::Plain, &mut plain).unwrap();
        assert_eq!(plain, [0]);
    }

    #[test]
    fn lengths_beyond_the_limit_are_refused() {
        // A length of 2^60.
        let long = [253, 0, 0, 0, 0, 0, 0, 0, 16];
        let error = Small::decode::<Vec<u64>>(&long).unwrap_err();
        assert!(error.to_string().contains("1 MiB"), "{error}");
        let error = Small::decode_state::<Vec<u8>>(&long).unwrap_err();
        assert!(!error.to_string().is_empty());
        for end in 0..BYTES.len() {
            assert!(Small::decode::<Record>(&BYTES[..end]).is_err(), "{end}");
        }
    }
}
