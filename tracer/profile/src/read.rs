//! Reading of a profile's file, which is untrusted.
//!
//! Records are read one after the other, with a limit on the size of each. A truncated file is read to its last whole
//! record. Used by `belljar profile`.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use belljar_files::open_input;
use belljar_sim::decode;
use serde::de::DeserializeOwned;

use crate::form::{
    END, HEAD, Head, MAGIC, MOST_BYTES, ProfileEnd, SAMPLES, Samples, VERSION, checksum,
};
use crate::tally::Tally;

/// An error in reading a file.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// A file operation failed.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// It is not a profile, or is damaged.
    #[error("{path} is no profile that could be read: at byte {offset}, {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// The offset of the fault.
        offset: u64,
        /// The fault.
        reason: String,
    },
}

/// The completeness of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The file is whole.
    Whole,
    /// The run was interrupted, or is in progress.
    Cut,
}

/// Reads the file at `path` into `tally`.
///
/// # Errors
/// Returns an error if it is not a profile, or damaged; `tally` then has the samples before the damage.
pub fn read(path: &Path, tally: &mut Tally) -> Result<State, ProfileError> {
    let failed = |source| ProfileError::Io {
        path: path.to_owned(),
        source,
    };
    let file = open_input(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut source = Source {
        from: BufReader::new(file).take(length),
        offset: 0,
    };
    let state = source.all(tally);
    state.map_err(|error| match error {
        Fault::Io(source) => failed(source),
        Fault::Form(offset, reason) => ProfileError::Form {
            path: path.to_owned(),
            offset,
            reason,
        },
    })
}

/// Checks the first `length` bytes of a file that is to be continued: whole records, each with its checksum.
///
/// # Errors
/// The same as for [`read`].
pub fn verify_start(file: File, path: &Path, length: u64) -> Result<(), ProfileError> {
    let mut source = Source {
        from: BufReader::new(file).take(length),
        offset: 0,
    };
    let mut tally = Tally::new(crate::Filter::default());
    let state = source.all(&mut tally);
    let at = source.offset;
    let form = |offset, reason: &str| ProfileError::Form {
        path: path.to_owned(),
        offset,
        reason: reason.to_owned(),
    };
    match state {
        Ok(_) if at == length => Ok(()),
        Ok(_) => Err(form(at, "a record was changed, or lacks its end")),
        Err(Fault::Form(offset, reason)) => Err(form(offset, &reason)),
        Err(Fault::Io(source)) => Err(ProfileError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

enum Fault {
    Io(io::Error),
    Form(u64, String),
}

struct Source<R> {
    from: io::Take<R>,
    offset: u64,
}

impl<R: Read> Source<R> {
    fn all(&mut self, tally: &mut Tally) -> Result<State, Fault> {
        let mut magic = [0; MAGIC.len()];
        if !self.fill(&mut magic)? || magic != MAGIC {
            return Err(Fault::Form(0, "it does not begin as one".to_owned()));
        }
        match self.word()? {
            Some(VERSION) => {}
            Some(other) => {
                let reason = format!(
                    "it has version {other} of the format, and this belljar reads {VERSION}"
                );
                return Err(Fault::Form(8, reason));
            }
            None => return Ok(State::Cut),
        }
        let mut head: Option<Head> = None;
        let mut last = None;
        while let Some((kind, at, plain)) = self.record()? {
            let wrong = |reason: &str| Fault::Form(at, reason.to_owned());
            match (kind, &head) {
                (HEAD, None) => {
                    let read: Head = parsed(&plain, at)?;
                    if read.every == 0 || read.vcpus == 0 {
                        return Err(wrong("its head makes no sense"));
                    }
                    last = Some(read.first);
                    tally.begin(&read);
                    head = Some(read);
                }
                (SAMPLES, Some(head)) => {
                    let samples: Samples = parsed(&plain, at)?;
                    if !samples.is_sound() {
                        return Err(wrong("its samples have stacks that are not there"));
                    }
                    tally.add(head, &samples);
                    let until = samples.samples.last();
                    last = last.max(until.map(|it| it.number.saturating_add(1)));
                }
                (END, Some(head)) => {
                    let end: ProfileEnd = parsed(&plain, at)?;
                    tally.end(head, end.next);
                    return Ok(State::Whole);
                }
                _ => return Err(wrong("a record stands where it must not")),
            }
        }
        if let (Some(head), Some(last)) = (&head, last) {
            tally.end(head, last);
        }
        Ok(State::Cut)
    }

    /// Reads the next record: its kind, its offset, and its bytes; `None` at the end of the file.
    fn record(&mut self) -> Result<Option<(u32, u64, Vec<u8>)>, Fault> {
        let at = self.offset;
        let mut words = [0; 4];
        for word in &mut words {
            let Some(read) = self.word()? else {
                return Ok(None);
            };
            *word = read;
        }
        let [kind, packed, plain, sum] = words;
        let wrong = |reason: &str| Fault::Form(at, reason.to_owned());
        if packed > MOST_BYTES || plain > MOST_BYTES {
            return Err(wrong("a record is longer than any is"));
        }
        if u64::from(packed) > self.from.limit() {
            return Ok(None);
        }
        let mut bytes = vec![0; packed as usize];
        if !self.fill(&mut bytes)? {
            return Ok(None);
        }
        if checksum([kind, packed, plain], &bytes) != sum {
            return Err(wrong("a record was changed: its checksum is another one"));
        }
        let unpacked = zstd::bulk::decompress(&bytes, plain as usize);
        let unpacked =
            unpacked.map_err(|error| wrong(&format!("a record is not packed: {error}")))?;
        if unpacked.len() != plain as usize {
            return Err(wrong("a record is shorter than it says"));
        }
        Ok(Some((kind, at, unpacked)))
    }

    fn word(&mut self) -> Result<Option<u32>, Fault> {
        let mut bytes = [0; 4];
        let there = self.fill(&mut bytes)?;
        Ok(there.then_some(u32::from_le_bytes(bytes)))
    }

    /// Returns true if the buffer was filled.
    fn fill(&mut self, into: &mut [u8]) -> Result<bool, Fault> {
        match self.from.read_exact(into) {
            Ok(()) => {
                self.offset += into.len() as u64;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Fault::Io(error)),
        }
    }
}

fn parsed<T: DeserializeOwned>(bytes: &[u8], at: u64) -> Result<T, Fault> {
    decode(bytes).map_err(|error| Fault::Form(at, error.to_string()))
}
