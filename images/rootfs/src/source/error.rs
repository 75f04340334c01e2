//! Why a source can't be read, and the bounds on what a hostile one makes the reader do.
//!
//! Every error names the file, and the layer and entry in it; every bound is here, and what is counted against one is counted
//! before it is held. Used by all that reads sources.

use crate::TreeError;

/// Most bytes that the files of a source have in all, and that one of its streams unpacks to.
pub(super) const MOST_BYTES: u64 = 1 << 40;
/// Most bytes of names, links and attributes in all, with what each entry costs.
const MOST_METADATA: u64 = 2 << 30;
/// What an entry costs beyond its strings.
const ENTRY_COST: u64 = 200;
/// Most bytes of paths that are looked up: a source with very deep folders has more than any that programs run in.
const MOST_LOOKED_UP: u64 = 8 << 30;
/// Longest JSON document.
pub(super) const LONGEST_JSON: u64 = 16 << 20;

/// Why a source can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The host's file system refuses.
    #[error("cannot read {place}: {source}")]
    Io {
        /// The path, and what in it.
        place: String,
        /// What the host says.
        source: std::io::Error,
    },
    /// It is nothing that can be a root file system.
    #[error(
        "{path} is {what}: give a folder, an OCI layout or archive, what `docker save` wrote, an Apptainer image, \
         a squashfs, or a tar archive of a root file system"
    )]
    Unknown {
        /// Its path.
        path: String,
        /// What it is instead.
        what: &'static str,
    },
    /// What it is made of contradicts its format.
    #[error("{place} is damaged or not of its format: {why}; make or fetch it again")]
    Damaged {
        /// The file, and the layer and entry in it.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// It is well formed but of a kind that isn't read.
    #[error("{place} {what}")]
    Unsupported {
        /// The file, and the layer and entry in it.
        place: String,
        /// What isn't supported, and what to do.
        what: String,
    },
    /// Bytes aren't those that their digest names.
    #[error(
        "the {blob} of {place} has the digest sha256:{found} instead of sha256:{expected}: it was changed or damaged; fetch it again"
    )]
    Digest {
        /// The file or folder.
        place: String,
        /// The blob or layer.
        blob: String,
        /// As its descriptor says.
        expected: String,
        /// As its bytes say.
        found: String,
    },
    /// The tag chooses none or several of its images.
    #[error("{path} {what}; it has: {tags}")]
    Tag {
        /// The source.
        path: String,
        /// What is wrong with the choice.
        what: String,
        /// The tags that there are.
        tags: String,
    },
    /// There is no image for linux/amd64.
    #[error(
        "{place} has no image for linux/amd64, but for {platforms}: save it with `--platform linux/amd64`"
    )]
    Platform {
        /// The file or folder.
        place: String,
        /// What it has.
        platforms: String,
    },
    /// It is larger than a root file system may be.
    #[error("{place} has more than {what}: it is no usable root file system")]
    Limit {
        /// The file, and the layer and entry in it.
        place: String,
        /// The bound.
        what: &'static str,
    },
    /// A path can't stand in a tree.
    #[error("{place}: {source}")]
    Tree {
        /// The file, and the layer and entry in it.
        place: String,
        /// Why.
        source: TreeError,
    },
    /// A file's bytes weren't taken.
    #[error("cannot copy {place}: {source}")]
    Copy {
        /// The source, and the file in it.
        place: String,
        /// Why.
        source: std::io::Error,
    },
}

impl SourceError {
    pub(super) fn io(place: impl std::fmt::Display, source: std::io::Error) -> Self {
        Self::Io {
            place: place.to_string(),
            source,
        }
    }

    pub(super) fn damaged(place: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        Self::Damaged {
            place: place.to_string(),
            why: why.to_string(),
        }
    }

    pub(super) fn unsupported(place: impl std::fmt::Display, what: impl std::fmt::Display) -> Self {
        Self::Unsupported {
            place: place.to_string(),
            what: what.to_string(),
        }
    }

    pub(super) fn tree(place: impl std::fmt::Display, source: TreeError) -> Self {
        Self::Tree {
            place: place.to_string(),
            source,
        }
    }
}

/// What a source may still make the reader hold.
#[derive(Debug)]
pub(super) struct Budget {
    metadata: u64,
    bytes: u64,
    looked_up: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            metadata: MOST_METADATA,
            bytes: MOST_BYTES,
            looked_up: MOST_LOOKED_UP,
        }
    }
}

impl Budget {
    /// With fewer bytes of metadata, so that a test reaches the end.
    #[cfg(test)]
    pub(super) fn of_metadata(metadata: u64) -> Self {
        Self {
            metadata,
            ..Self::default()
        }
    }

    /// With fewer bytes of paths, so that a test reaches the end.
    #[cfg(test)]
    pub(super) fn of_paths(looked_up: u64) -> Self {
        Self {
            looked_up,
            ..Self::default()
        }
    }

    /// Pays for an entry, or a directory that it implies, with strings of so many bytes.
    pub(super) fn entry(&mut self, place: &str, strings: usize) -> Result<(), SourceError> {
        match self.metadata.checked_sub(ENTRY_COST + strings as u64) {
            Some(left) => self.metadata = left,
            None => return Err(limit(place, "2 GiB of names and attributes")),
        }
        Ok(())
    }

    /// Counts a lookup of a path of so many bytes. A hostile source may ask for one lookup for each folder above each file.
    pub(super) fn look_up(&mut self, place: &str, bytes: usize) -> Result<(), SourceError> {
        match self.looked_up.checked_sub(bytes as u64 + 1) {
            Some(left) => self.looked_up = left,
            None => {
                return Err(limit(
                    place,
                    "8 GiB of paths to look up: its folders are too deep",
                ));
            }
        }
        Ok(())
    }

    /// Pays for a file's bytes.
    pub(super) fn file(&mut self, place: &str, size: u64) -> Result<(), SourceError> {
        match self.bytes.checked_sub(size) {
            Some(left) => self.bytes = left,
            None => return Err(limit(place, "1 TiB of files")),
        }
        Ok(())
    }
}

fn limit(place: &str, what: &'static str) -> SourceError {
    SourceError::Limit {
        place: place.to_owned(),
        what,
    }
}

/// A path or name for an error, shortened.
pub(super) fn shown(path: &[u8]) -> String {
    let end = path.len().min(200);
    format!("{:?}", String::from_utf8_lossy(&path[..end]))
}
