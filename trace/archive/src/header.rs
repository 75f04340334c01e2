//! The header of a trace: what is known before the first call.
//!
//! Called by the writer and the readers.

use belljar_trace::{MOST_FRAMES, TraceHeader, VERSION, codec};
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

/// The part of a header that all versions have.
#[derive(Encode, Decode)]
struct Plain {
    trace: TraceHeader,
    accounted: bool,
}

/// The same with the number of frames.
#[derive(Encode, Decode)]
struct Sited {
    plain: Plain,
    frames: u8,
}

/// A header. It repeats the version, as no checksum covers the file's first bytes.
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
        self.trace.check(VERSION)?;
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
        let decoded: Versioned = codec::decode(payload).map_err(|error| error.to_string())?;
        let Sited { plain, frames } = decoded.sited;
        if decoded.version != version {
            return Err(format!(
                "it is of version {}, and the file says {version}",
                decoded.version
            ));
        }
        plain.trace.check(version)?;
        if frames > MOST_FRAMES {
            return Err("its sites have an impossible number of frames".to_owned());
        }
        let accounted = plain.accounted;
        Ok(Self {
            trace: plain.trace.as_written_now(),
            contents: Contents { accounted, frames },
        })
    }
}
