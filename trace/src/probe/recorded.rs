//! Records with their sites, as bytes.
//!
//! Sites are a table before the records, as many calls share a site. The bytes are untrusted: numbers missing from the table are
//! refused. Used for all encodings of records: files, checkpoints, and messages between hosts.

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
    /// Joins records with their separately encoded sites.
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
