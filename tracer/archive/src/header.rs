//! The header of a trace: what is known before the first call.
//!
//! In version 7 it is one record, since version 8 that and how many frames sites have, since version 11 also the version. Called by the writer and the
//! readers.

use belljar_trace::{
    MOST_FRAMES, PLAIN_VERSION, SITES_VERSION, TraceHeader, UNCOUNTED_VERSION, VERSION, codec,
};
use bincode::{Decode, Encode};

/// What calls of a trace tell besides what all tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Whether they tell what their nodes' time went into.
    pub accounted: bool,
    /// How many frames of their stacks they tell, at most; without any, calls have no sites.
    pub frames: u8,
}

/// What is known before the first call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) trace: TraceHeader,
    pub(crate) contents: Contents,
}

/// A header as version 7 has it.
#[derive(Encode, Decode)]
struct Plain {
    trace: TraceHeader,
    accounted: bool,
}

/// A header as versions since 8 have it.
#[derive(Encode, Decode)]
struct Sited {
    plain: Plain,
    frames: u8,
}

/// A header as versions since 11 have it. Its version is told again: no checksum covers the file's first bytes.
#[derive(Encode, Decode)]
struct Versioned {
    sited: Sited,
    version: u16,
}

impl Header {
    /// The header's record in the current version.
    ///
    /// # Errors
    /// What is wrong with it, where it could not be read again.
    pub(crate) fn encode(self) -> Result<Vec<u8>, String> {
        self.trace.check()?;
        let Contents { accounted, frames } = self.contents;
        let plain = Plain {
            trace: self.trace,
            accounted,
        };
        let mut bytes = Vec::new();
        let versioned = Versioned {
            sited: Sited { plain, frames },
            version: VERSION,
        };
        let encoded = codec::encode(&versioned, &mut bytes);
        encoded.map_err(|error| error.to_string())?;
        Self::decode(VERSION, &bytes)?;
        Ok(bytes)
    }

    /// The header whose record a trace of this version has.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(version: u16, payload: &[u8]) -> Result<Self, String> {
        let decoded = match version {
            PLAIN_VERSION => {
                codec::decode(payload).map(|plain| (Sited { plain, frames: 0 }, version))
            }
            ..UNCOUNTED_VERSION => codec::decode(payload).map(|sited| (sited, version)),
            _ => codec::decode(payload).map(|it: Versioned| (it.sited, it.version)),
        };
        let (Sited { plain, frames }, told) = decoded.map_err(|error| error.to_string())?;
        if told != version {
            return Err(format!(
                "it is of version {told}, and the file says {version}"
            ));
        }
        plain.trace.check()?;
        let fewest = u8::from(version == SITES_VERSION);
        if version != PLAIN_VERSION && !(fewest..=MOST_FRAMES).contains(&frames) {
            return Err("its sites have an impossible number of frames".to_owned());
        }
        let accounted = plain.accounted;
        Ok(Self {
            trace: plain.trace,
            contents: Contents { accounted, frames },
        })
    }
}
