//! The header of a trace: data that precedes the first call.
//!
//! Used by the writer and the readers.

use belljar_trace::{MODELLED_VERSION, MOST_FRAMES, TYPED_VERSION, TraceHeader, VERSION, codec};
use bincode::{Decode, Encode};

/// Optional contents of a trace's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// True if they have accounts of their nodes' time.
    pub accounted: bool,
    /// Most stack frames of a call site; 0 if calls have no sites.
    pub frames: u8,
}

/// Data that precedes the first call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) trace: TraceHeader,
    pub(crate) contents: Contents,
}

/// The part of a header that all versions share.
#[derive(Encode, Decode)]
struct Plain {
    trace: TraceHeader,
    accounted: bool,
}

/// The same plus the number of frames.
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

/// The same with the processors of the run's time models.
#[derive(Encode, Decode)]
struct Modelled {
    versioned: Versioned,
    processors: Vec<String>,
}

impl Header {
    /// Encodes the header in the version that its contents need.
    ///
    /// # Errors
    /// Returns the fault if the result could not be read again.
    pub(crate) fn encode(self) -> Result<Vec<u8>, String> {
        self.trace.check(VERSION)?;
        let Contents { accounted, frames } = self.contents;
        let (version, processors) = (self.trace.file_version(), self.trace.processors().to_vec());
        let plain = Plain {
            trace: self.trace,
            accounted,
        };
        let mut bytes = Vec::new();
        let versioned = Versioned {
            sited: Sited { plain, frames },
            version,
        };
        let encoded = match version {
            MODELLED_VERSION | TYPED_VERSION => {
                let modelled = Modelled {
                    versioned,
                    processors,
                };
                codec::encode(&modelled, &mut bytes)
            }
            _ => codec::encode(&versioned, &mut bytes),
        };
        encoded.map_err(|error| error.to_string())?;
        Self::decode(version, &bytes)?;
        Ok(bytes)
    }

    /// Decodes the header of a trace of this version.
    ///
    /// # Errors
    /// Returns the fault.
    pub(crate) fn decode(version: u16, payload: &[u8]) -> Result<Self, String> {
        let (decoded, processors) = match version {
            MODELLED_VERSION | TYPED_VERSION => {
                let modelled = codec::decode::<Modelled>(payload);
                let modelled = modelled.map_err(|error| error.to_string())?;
                (modelled.versioned, modelled.processors)
            }
            _ => {
                let decoded = codec::decode::<Versioned>(payload);
                (decoded.map_err(|error| error.to_string())?, Vec::new())
            }
        };
        let Sited { plain, frames } = decoded.sited;
        if decoded.version != version {
            return Err(format!(
                "it is of version {}, and the file says {version}",
                decoded.version
            ));
        }
        let trace = plain.trace.with_processors(&processors);
        let trace = trace.with_datatypes(version == TYPED_VERSION);
        trace.check(version)?;
        if frames > MOST_FRAMES {
            return Err("its sites have an impossible number of frames".to_owned());
        }
        let accounted = plain.accounted;
        Ok(Self {
            trace: trace.as_written_now(),
            contents: Contents { accounted, frames },
        })
    }
}
