//! Records with their sites, as bytes.
//!
//! Sites are a table before the records, as calls from one place are many. Bytes may come from anybody: numbers that the table does
//! not have are refused. Used wherever records are written: files, checkpoints, and what hosts send each other.

use bincode::de::{BorrowDecode, BorrowDecoder, Decoder};
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};

use super::ProbeRecord;
use crate::saved::{SavedSites, load_sites_of, save_sites_of};

/// Records of probes that are encoded with their sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded(pub Vec<ProbeRecord>);

impl Recorded {
    /// The records whose sites are told apart from them.
    fn joined(sites: &SavedSites, mut records: Vec<ProbeRecord>) -> Result<Self, DecodeError> {
        let places = records.iter_mut().map(|record| &mut record.site);
        load_sites_of(places, sites)
            .map_err(|error| DecodeError::OtherString(error.to_string()))?;
        Ok(Self(records))
    }
}

impl Encode for Recorded {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        save_sites_of(self.0.iter().map(|record| &record.site)).encode(encoder)?;
        self.0.encode(encoder)
    }
}

impl<C> Decode<C> for Recorded {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let sites = SavedSites::decode(decoder)?;
        Self::joined(&sites, Vec::decode(decoder)?)
    }
}

impl<'de, C> BorrowDecode<'de, C> for Recorded {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        let sites = SavedSites::borrow_decode(decoder)?;
        Self::joined(&sites, Vec::borrow_decode(decoder)?)
    }
}
