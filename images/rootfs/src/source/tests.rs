//! Sources made by the tests: reading them, and hostile ones.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use super::*;
use crate::NodeKind;

/// OCI layouts and archives of `docker save`.
mod containers;
/// Scripts that set variables.
mod environment;
/// Damaged and hostile sources: errors, never a panic.
mod hostile;
/// Effects of layers on lower ones.
mod layers;
/// Folders, plain archives, squashfs and Apptainer images.
mod others;

/// An entry of a tar archive that a test makes.
pub(super) struct Made {
    kind: EntryType,
    path: Vec<u8>,
    data: Vec<u8>,
}

pub(super) fn file(path: &str, data: &str) -> Made {
    made(EntryType::Regular, path, data)
}

pub(super) fn folder(path: &str) -> Made {
    made(EntryType::Directory, path, "")
}

/// A symbolic or hard link, whose data are its target.
pub(super) fn link(kind: EntryType, path: &str, target: &str) -> Made {
    made(kind, path, target)
}

pub(super) fn made(kind: EntryType, path: &str, data: &str) -> Made {
    Made {
        kind,
        path: path.as_bytes().to_vec(),
        data: data.as_bytes().to_vec(),
    }
}

/// A tar archive of the entries, with their paths as given.
pub(super) fn tar(entries: &[Made]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for entry in entries {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..entry.path.len()].copy_from_slice(&entry.path);
        header.set_entry_type(entry.kind);
        header.set_mode(0o751);
        header.set_uid(7);
        header.set_gid(8);
        header.set_mtime(9);
        header.set_device_major(5).expect("is GNU's");
        header.set_device_minor(6).expect("is GNU's");
        let is_link = entry.kind.is_symlink() || entry.kind.is_hard_link();
        let data: &[u8] = if is_link { b"" } else { &entry.data };
        if is_link {
            header.set_link_name_literal(&entry.data).expect("is short");
        }
        header.set_size(data.len() as u64);
        header.set_cksum();
        builder.append(&header, data).expect("writes");
    }
    builder.into_inner().expect("ends")
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).expect("writes");
    writer.finish().expect("ends")
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 1).expect("packs")
}

pub(super) fn xz(bytes: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).expect("starts");
    writer.write_all(bytes).expect("writes");
    writer.finish().expect("ends")
}

pub(super) fn digest(bytes: &[u8]) -> String {
    compression::hex(&<sha2::Sha256 as sha2::Digest>::digest(bytes))
}

/// A folder for a test, and a file in it.
pub(super) fn written(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("makes");
    let path = folder.path().join("source");
    std::fs::write(&path, bytes).expect("writes");
    (folder, path)
}

/// Keeps the data of all files.
#[derive(Default)]
pub(super) struct Kept(pub(super) BTreeMap<NodeId, Vec<u8>>);

impl FileSink for Kept {
    fn wants(&self, id: NodeId) -> bool {
        !self.0.contains_key(&id)
    }

    fn file(&mut self, id: NodeId, data: &mut dyn Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        data.read_to_end(&mut bytes)?;
        self.0.insert(id, bytes);
        Ok(())
    }
}

/// All paths of a listing, each with its text: a file's data, a link's target, or the type's first letter.
pub(super) fn texts(listing: &Listing) -> BTreeMap<String, String> {
    let mut kept = Kept::default();
    listing.copy(&mut kept).expect("copies");
    let text = |(path, id): (&[u8], NodeId)| {
        let bytes = match &listing.tree.node(id).kind {
            NodeKind::File { size } => {
                let bytes = kept.0.get(&id).expect("every file was given");
                assert_eq!(bytes.len() as u64, *size);
                bytes.clone()
            }
            NodeKind::Link(target) => [b"-> ", &target[..]].concat(),
            kind => format!("{kind:?}").into_bytes()[..1].to_vec(),
        };
        let path = String::from_utf8_lossy(path).into_owned();
        (path, String::from_utf8_lossy(&bytes).into_owned())
    };
    listing.tree.paths().map(text).collect()
}

pub(super) fn read(path: &Path) -> Result<Listing, SourceError> {
    Source::open(path, None)?.read()
}

pub(super) fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
    pairs.iter().map(owned).collect()
}
