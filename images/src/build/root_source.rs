//! A container image or root file system on this host: its detection and its identity.
//!
//! The identity changes when the content does, and is found without reading all of the content where
//! possible. A container image is identified by the digests in it. Any other file is identified by its own
//! digest, which is computed once and stored. A folder is identified by names, sizes, owners, modes and
//! times of its entries. Two hosts with the same source compute the same identity. Created when a recipe is
//! loaded; read when its image is built.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use belljar_rootfs::{Source, SourceKind};

use crate::debian::digest::Sha256Hex;
use crate::store::cache::user_folder;
use crate::store::verified;

/// Limits on a folder's number of files and on its depth.
const MOST_ENTRIES: usize = 1 << 22;
const MOST_DEPTH: usize = 128;

/// A container image or root file system.
#[derive(Debug, Clone)]
pub(crate) struct RootSource {
    path: PathBuf,
    tag: Option<String>,
    identity: String,
}

impl RootSource {
    /// Opens the source at `path`, and the image with this tag if it has several; the error is a text.
    pub(crate) fn open(path: &Path, tag: Option<&str>) -> Result<Self, String> {
        let identity = identity(path, tag).map_err(|error| error.to_string())?;
        Ok(Self {
            path: path.to_owned(),
            tag: tag.map(str::to_owned),
            identity,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// A digest in hexadecimal, unique to the content.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }
}

fn identity(path: &Path, tag: Option<&str>) -> io::Result<String> {
    let mut hash = Sha256Hex::default();
    hash.update_sized(tag.unwrap_or_default().as_bytes());
    if !path.is_dir() {
        let stamps = user_folder("sources").ok();
        let digest = verified::digest_once(path, stamps.as_deref())?;
        hash.update_sized(digest.as_bytes());
        return Ok(hash.finish());
    }
    let source = Source::open(path, tag).map_err(io::Error::other)?;
    if source.kind() == SourceKind::Folder {
        folder(path, path, 0, &mut 0, &mut hash)?;
    } else {
        let lists = ["index.json", "manifest.json"].map(|name| path.join(name));
        for list in lists.iter().filter(|list| list.is_file()) {
            hash.update_sized(&fs::read(list)?);
        }
    }
    Ok(hash.finish())
}

/// Adds the metadata of a folder's entries, without reading files.
fn folder(
    root: &Path,
    at: &Path,
    depth: usize,
    count: &mut usize,
    hash: &mut Sha256Hex,
) -> io::Result<()> {
    let mut names = fs::read_dir(at)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    *count += names.len();
    if *count > MOST_ENTRIES || depth > MOST_DEPTH {
        return Err(io::Error::other(
            "the folder has too many files, or is too deep",
        ));
    }
    for path in names {
        let data = path.symlink_metadata()?;
        let name = path.strip_prefix(root).unwrap_or(&path);
        hash.update_sized(name.as_os_str().as_bytes());
        let (seconds, nanoseconds) = (data.mtime(), data.mtime_nsec());
        for number in [seconds as u64, nanoseconds as u64, data.rdev()] {
            hash.update(&number.to_le_bytes());
        }
        for number in [data.mode(), data.uid(), data.gid()] {
            hash.update(&number.to_le_bytes());
        }
        if data.is_symlink() {
            hash.update_sized(fs::read_link(&path)?.as_os_str().as_bytes());
        } else if data.is_file() {
            hash.update(&data.len().to_le_bytes());
        } else if data.is_dir() {
            folder(root, &path, depth + 1, count, hash)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_known_by_what_is_in_it() {
        let place = tempfile::tempdir().expect("temporary folder");
        let root = place.path().join("root");
        fs::create_dir_all(root.join("etc")).expect("folder");
        fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh").expect("writes");
        let identity = || RootSource::open(&root, None).expect("a folder").identity;
        let first = identity();
        assert_eq!(identity(), first);
        let file = fs::File::options()
            .append(true)
            .open(root.join("etc/passwd"));
        io::Write::write_all(&mut file.expect("opens"), b"x").expect("writes");
        let longer = identity();
        assert_ne!(longer, first);
        fs::rename(root.join("etc/passwd"), root.join("etc/other")).expect("renames");
        assert_ne!(identity(), longer);
        assert!(RootSource::open(&place.path().join("none"), None).is_err());
    }
}
