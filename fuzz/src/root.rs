//! Untrusted archives of root file systems and container images.
//!
//! Their contents are written as an image, and read back: the same files with the same sizes. The list of targets
//! in `lib.rs` names these functions.

use std::collections::BTreeMap;
use std::io::Read;

use sha2::{Digest, Sha256};

use belljar_rootfs::{ErofsWriter, FileSink, FileTree, NodeId, NodeKind, Source, root_tree};

/// Limit on the total size of written files: a small archive may contain far more.
const MOST: u64 = 8 << 20;

struct Sink<'a>(ErofsWriter<'a>);

impl FileSink for Sink<'_> {
    fn wants(&self, id: NodeId) -> bool {
        self.0.wants(id)
    }

    fn file(&mut self, id: NodeId, data: &mut dyn Read) -> std::io::Result<()> {
        self.0.file(id, data).map_err(std::io::Error::other)
    }
}

/// The sizes of a tree's regular files, by path.
fn sizes(tree: &FileTree) -> BTreeMap<String, u64> {
    let files = tree.paths().filter_map(|(path, id)| {
        let NodeKind::File { size } = tree.node(id).kind else {
            return None;
        };
        Some((format!("/{}", String::from_utf8_lossy(path)), size))
    });
    files.collect()
}

/// Reads an archive and writes its contents.
pub(crate) fn target(data: &[u8]) {
    let folder = tempfile::tempdir().expect("the host has a folder for files");
    let path = folder.path().join("source");
    std::fs::write(&path, data).expect("the host stores a file");
    // Errors are expected; only panics are defects.
    let listing = Source::open(&path, None).and_then(|source| source.read());
    let Ok(listing) = listing else { return };
    let expected = sizes(&listing.tree);
    if expected
        .values()
        .fold(0, |sum: u64, size| sum.saturating_add(*size))
        > MOST
    {
        return;
    }
    let image = folder.path().join("image");
    let Ok(writer) = ErofsWriter::create(&listing.tree, &image) else {
        return;
    };
    let mut sink = Sink(writer);
    listing.copy(&mut sink).expect("what was listed is copied");
    sink.0.finish().expect("every file came");
    let found = root_tree(&image).expect("what was written is read").files;
    let found: BTreeMap<String, u64> = found
        .into_iter()
        .map(|mut file| {
            let copied = std::io::copy(&mut file, &mut std::io::sink());
            assert_eq!(copied.expect("reads"), file.size());
            (file.path.clone(), file.size())
        })
        .collect();
    assert_eq!(found, expected);
}

/// A tar archive of these names and contents; names that end with `/` are folders, contents that begin with `->`
/// are links.
fn tar(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        let added = if let Some(target) = content.strip_prefix(b"->") {
            let target = String::from_utf8_lossy(target).into_owned();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            archive.append_link(&mut header, name, target)
        } else {
            if name.ends_with('/') {
                header.set_entry_type(tar::EntryType::Directory);
            }
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, name, *content)
        };
        added.expect("a plain name");
    }
    archive.into_inner().expect("written to memory")
}

/// A plain archive, a compressed one, and an archive of `docker save` with two layers.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let plain = tar(&[
        ("bin/", b""),
        ("bin/sh", b"#!/bin/busybox"),
        ("bin/ash", b"->sh"),
        ("etc/passwd", b"root:x:0:0::/root:/bin/sh"),
    ]);
    let above = tar(&[("bin/.wh.ash", b""), ("etc/group", b"root:x:0:")]);
    let zstd = zstd::encode_all(&plain[..], 1).expect("packs");
    let sum = |bytes: &[u8]| {
        let digest = Sha256::digest(bytes);
        digest
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let (first, second) = (sum(&plain), sum(&above));
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{"Env":["A=b"]}},
        "rootfs":{{"type":"layers","diff_ids":["sha256:{first}","sha256:{second}"]}}}}"#
    );
    let names = [
        format!("{}.json", sum(config.as_bytes())),
        format!("{first}.tar"),
        format!("{second}/layer.tar"),
    ];
    let manifest = format!(
        r#"[{{"Config":"{}","RepoTags":["x:1"],"Layers":["{}","{}"]}}]"#,
        names[0], names[1], names[2]
    );
    let saved = tar(&[
        ("manifest.json", manifest.as_bytes()),
        (&names[0], config.as_bytes()),
        (&names[1], &plain),
        (&names[2], &above),
    ]);
    vec![plain, zstd, saved]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_sound() {
        for seed in seeds() {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), &seed).expect("writes");
            let source = Source::open(file.path(), None).expect("opens");
            let listing = source.read().expect("reads");
            assert!(listing.tree.find(b"bin/sh").is_some());
            target(&seed);
        }
    }
}
