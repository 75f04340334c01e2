//! Errors of sources, and limits on untrusted ones.
//!
//! Every error names the file, and the layer and entry in it. Every limit is defined here and is checked before memory is
//! used.

use crate::TreeError;

/// Limit on the total size of a source's files, and on the unpacked size of one stream.
pub(super) const MOST_BYTES: u64 = 1 << 40;
/// Limit on the total of names, links and attributes, including the cost of each entry.
const MOST_METADATA: u64 = 2 << 30;
/// Memory cost of an entry beyond its strings.
const ENTRY_COST: u64 = 200;
/// Limit on the total length of paths that are looked up; only sources with uselessly deep folders exceed it.
const MOST_LOOKED_UP: u64 = 8 << 30;
/// Longest JSON document.
pub(super) const LONGEST_JSON: u64 = 16 << 20;

/// An error of reading a source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A system error.
    #[error("cannot read {place}: {source}")]
    Io {
        /// The path, and the entry in it.
        place: String,
        /// System error.
        source: std::io::Error,
    },
    /// It is not a kind of source that is supported.
    #[error(
        "{path} is {what}: give a folder, an OCI layout or archive, what `docker save` wrote, an Apptainer image, \
         a squashfs, or a tar archive of a root file system"
    )]
    Unknown {
        /// Its path.
        path: String,
        /// Its actual kind.
        what: &'static str,
    },
    /// Its contents contradict its format.
    #[error("{place} is damaged or not of its format: {why}; make or fetch it again")]
    Damaged {
        /// The file, and the layer and entry in it.
        place: String,
        /// The problem.
        why: String,
    },
    /// It is well formed but unsupported.
    #[error("{place} {what}")]
    Unsupported {
        /// The file, and the layer and entry in it.
        place: String,
        /// The unsupported feature, and advice.
        what: String,
    },
    /// Data do not have their digest.
    #[error(
        "the {blob} of {place} has the digest sha256:{found} instead of sha256:{expected}: it was changed or damaged; fetch it again"
    )]
    Digest {
        /// The file or folder.
        place: String,
        /// The blob or layer.
        blob: String,
        /// By its descriptor.
        expected: String,
        /// Computed from its data.
        found: String,
    },
    /// The tag selects no or several images.
    #[error("{path} {what}; it has: {tags}")]
    Tag {
        /// The source.
        path: String,
        /// The problem with the selection.
        what: String,
        /// The available tags.
        tags: String,
    },
    /// There is no image for linux/amd64.
    #[error(
        "{place} has no image for linux/amd64, but for {platforms}: save it with `--platform linux/amd64`"
    )]
    Platform {
        /// The file or folder.
        place: String,
        /// Its platforms.
        platforms: String,
    },
    /// It exceeds the limits for a root file system.
    #[error("{place} has more than {what}: it is no usable root file system")]
    Limit {
        /// The file, and the layer and entry in it.
        place: String,
        /// The limit.
        what: &'static str,
    },
    /// A path is not allowed in a tree.
    #[error("{place}: {source}")]
    Tree {
        /// The file, and the layer and entry in it.
        place: String,
        /// The reason.
        source: TreeError,
    },
    /// A file's data were not accepted.
    #[error("cannot copy {place}: {source}")]
    Copy {
        /// The source, and the file in it.
        place: String,
        /// The reason.
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

/// The remaining limits of a source.
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
    /// A smaller limit on metadata, for tests.
    #[cfg(test)]
    pub(super) fn of_metadata(metadata: u64) -> Self {
        Self {
            metadata,
            ..Self::default()
        }
    }

    /// A smaller limit on paths, for tests.
    #[cfg(test)]
    pub(super) fn of_paths(looked_up: u64) -> Self {
        Self {
            looked_up,
            ..Self::default()
        }
    }

    /// Counts an entry, or a directory that it implies, with strings of this total length.
    pub(super) fn entry(&mut self, place: &str, strings: usize) -> Result<(), SourceError> {
        match self.metadata.checked_sub(ENTRY_COST + strings as u64) {
            Some(left) => self.metadata = left,
            None => return Err(limit(place, "2 GiB of names and attributes")),
        }
        Ok(())
    }

    /// Counts a lookup of a path of this length. A hostile source may need one lookup for each parent of each file.
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

    /// Counts a file's data.
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
