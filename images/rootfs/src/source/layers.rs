//! Layers of a container image, or a plain archive as one layer: listed once, then copied once.
//!
//! Both passes read every byte and check every digest, so a file that changed between them is an error.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use super::SourceError;
use super::apply;
use super::blobs::{Blobs, unreadable};
use super::compression::{Hashed, hex, unpacked};
use super::entries::{Entries, EntryMetadata};
use super::error::Budget;
use crate::source::FileSink;
use crate::{FileTree, NodeId};
use sha2::{Digest, Sha256};

/// Most layers of an image; Docker builds at most 127.
pub(super) const MOST_LAYERS: usize = 1024;

/// Location of a layer, and its values in the descriptor and the configuration. Digests are hexadecimal.
#[derive(Debug, Clone, Default)]
pub(super) struct LayerBlob {
    pub(super) name: String,
    pub(super) digest: Option<String>,
    pub(super) size: Option<u64>,
    /// Digest of its uncompressed bytes.
    pub(super) diff_id: Option<String>,
}

/// Layers, lowest first.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    pub(super) blobs: Arc<Blobs>,
    pub(super) layers: Vec<LayerBlob>,
    /// Digest of the configuration, which the image's digest covers besides the layers.
    pub(super) config: Option<String>,
}

/// For each layer, the numbers of its entries with data in the tree, and their nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct LayerFiles(Vec<BTreeMap<u64, NodeId>>);

/// Digests of a layer as stored and uncompressed.
struct Digests {
    blob: String,
    unpacked: String,
}

impl Layers {
    /// The tree of all layers, the location of its files' data, and the digest of the whole.
    ///
    /// # Errors
    /// When a layer is missing or damaged, or differs from the image's description.
    pub(super) fn read(&self) -> Result<(FileTree, LayerFiles, String), SourceError> {
        let mut tree = FileTree::default();
        let mut budget = Budget::default();
        let mut files = LayerFiles::default();
        let mut hash = Sha256::new();
        let mut blob = String::new();
        if let Some(config) = &self.config {
            hash.update(format!("config {config}\n"));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let place = self.place(index);
            let has_whiteouts = self.config.is_some();
            let mut applied = apply::Layer::new(&mut tree, &mut budget, &place, has_whiteouts);
            let mut found = BTreeMap::new();
            let digests = self.entries(layer, &place, |number, entry, _| {
                if let Some(id) = applied.apply(entry)? {
                    found.insert(number, id);
                }
                Ok(())
            })?;
            files.0.push(found);
            hash.update(format!("layer {}\n", digests.unpacked));
            blob = digests.blob;
        }
        files.keep_named(&tree);
        let digest = match self.config {
            Some(_) => hex(&hash.finalize()),
            None => blob,
        };
        Ok((tree, files, digest))
    }

    /// Copies every file that the sink wants, in the order of each layer.
    ///
    /// # Errors
    /// Those of `read`, and the sink's.
    pub(super) fn copy(
        &self,
        files: &LayerFiles,
        sink: &mut dyn FileSink,
    ) -> Result<(), SourceError> {
        for (index, (layer, files)) in self.layers.iter().zip(&files.0).enumerate() {
            if !files.values().any(|id| sink.wants(*id)) {
                continue;
            }
            let place = self.place(index);
            self.entries(layer, &place, |number, entry, data| {
                let Some(id) = files.get(&number).filter(|id| sink.wants(**id)) else {
                    return Ok(());
                };
                let taken = sink.file(*id, data);
                taken.map_err(|source| SourceError::Copy {
                    place: format!("{} in {place}", super::error::shown(&entry.path)),
                    source,
                })
            })?;
        }
        Ok(())
    }

    /// Reads a layer to its end, passes on its entries with their numbers, and checks its digests.
    fn entries(
        &self,
        layer: &LayerBlob,
        place: &str,
        mut each: impl FnMut(u64, EntryMetadata, &mut dyn Read) -> Result<(), SourceError>,
    ) -> Result<Digests, SourceError> {
        let failed = |error: io::Error| unreadable(place, error);
        let (bytes, size) = self.blobs.open(&layer.name)?;
        if layer.size.is_some_and(|expected| expected != size) {
            let why = format!("it has {size} bytes, not those that its descriptor says");
            return Err(SourceError::damaged(place, why));
        }
        let mut packed = Hashed::new(bytes);
        let opened = Hashed::new(unpacked(&mut packed).map_err(failed)?);
        let mut entries = Entries::new(opened);
        let mut walk = || {
            let mut number: u64 = 0;
            while let Some(entry) = entries.next().map_err(failed)? {
                each(number, entry, &mut entries)?;
                number += 1;
            }
            Ok(())
        };
        let walked = walk();
        let has_end = entries.has_end();
        let mut opened = entries.into_inner();
        let unpacked = opened.finish().map_err(failed);
        drop(opened);
        let (blob, _) = packed.finish().map_err(failed)?;
        // A wrong blob explains all other errors, so its digest is checked first.
        self.check(layer, place, "blob", layer.digest.as_deref(), &blob)?;
        walked?;
        let (unpacked, _) = unpacked?;
        self.check(
            layer,
            place,
            "uncompressed layer",
            layer.diff_id.as_deref(),
            &unpacked,
        )?;
        // A layer's digest shows that it is complete; a plain archive has only its end marker.
        if self.config.is_none() && !has_end {
            return Err(SourceError::damaged(
                place,
                "it ends early, without the zeros at a tar archive's end",
            ));
        }
        Ok(Digests { blob, unpacked })
    }

    fn check(
        &self,
        layer: &LayerBlob,
        place: &str,
        what: &str,
        expected: Option<&str>,
        found: &str,
    ) -> Result<(), SourceError> {
        match expected {
            Some(expected) if expected != found => Err(SourceError::Digest {
                place: place.to_owned(),
                blob: format!("{what} {}", layer.name),
                expected: expected.to_owned(),
                found: found.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn place(&self, index: usize) -> String {
        let path = self.blobs.path().display();
        match self.config {
            Some(_) => format!("layer {} of {path}", index + 1),
            None => path.to_string(),
        }
    }
}

impl LayerFiles {
    /// Removes data that no name of the tree refers to any more.
    fn keep_named(&mut self, tree: &FileTree) {
        let mut named: Vec<NodeId> = tree.paths().map(|(_, id)| id).collect();
        named.sort_unstable();
        for layer in &mut self.0 {
            layer.retain(|_, id| named.binary_search(id).is_ok());
        }
    }
}
