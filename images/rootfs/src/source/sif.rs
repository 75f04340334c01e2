//! Apptainer's and Singularity's images (SIF): a header, descriptors, and the partition that they name.
//!
//! The primary system partition is the root. An image with an overlay is refused, because Apptainer would mount the overlay over the root. Hashes and signatures of its
//! data objects are not checked: `apptainer verify` does that. The layout follows `github.com/sylabs/sif`, version 1.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::SourceError;
use super::blobs::{Range, unreadable};
use super::environment::Environment;
use super::squashfs;
use crate::FileTree;

/// Folder of the scripts that set the variables of an Apptainer image, and Apptainer's own scripts, which are the same in every image.
const ENVIRONMENT: &[u8] = b".singularity.d/env";
const OWN: [&[u8]; 5] = [
    b"01-base.sh",
    b"94-appsbase.sh",
    b"95-apps.sh",
    b"99-base.sh",
    b"99-runtimevars.sh",
];
const MAGIC: &[u8] = b"SIF_MAGIC\0";
/// Offset of the magic, after a line that makes the file executable.
const MAGIC_AT: usize = 32;
const HEADER: usize = 128;
const DESCRIPTOR: usize = 585;
/// Limit on descriptors; SIF has room for 48.
const MOST_DESCRIPTORS: u64 = 1 << 16;
const AMD64: &[u8] = b"02";
const PARTITION: u32 = 0x4004;
const OCI_INDEX: u32 = 0x400a;
const PRIMARY_SYSTEM: u32 = 2;
const OVERLAY: u32 = 4;
const SQUASHFS: u32 = 1;
const ENCRYPTED: u32 = 5;

/// True for the first bytes of such an image.
pub(super) fn is_here(first: &[u8]) -> bool {
    first
        .get(MAGIC_AT..)
        .is_some_and(|rest| rest.starts_with(MAGIC))
}

/// The squashfs of the primary system partition.
///
/// # Errors
/// When there is none, or it is for another processor, encrypted, of another kind, or outside the file.
pub(super) fn open(path: &Path) -> Result<squashfs::SquashfsImage, SourceError> {
    let place = path.display();
    let file = File::open(path).map_err(|error| SourceError::io(&place, error))?;
    let length = file
        .metadata()
        .map_err(|error| SourceError::io(&place, error))?
        .len();
    let whole = Range::new(Arc::new(file), 0, length);
    let failed = |error: io::Error| unreadable(path, error);
    let mut header = [0; HEADER];
    whole.clone().read_exact(&mut header).map_err(failed)?;
    let count = number(&header, 88);
    if !is_here(&header) || count > MOST_DESCRIPTORS {
        return Err(SourceError::damaged(place, "its header is impossible"));
    }
    let outside = || SourceError::damaged(&place, "a data object lies outside of the file");
    let mut descriptors = whole.from(number(&header, 96)).ok_or_else(outside)?;
    let mut has_oci = false;
    let (mut root, mut overlay) = (None, None);
    for _ in 0..count {
        let mut descriptor = [0; DESCRIPTOR];
        descriptors.read_exact(&mut descriptor).map_err(failed)?;
        let is_used = descriptor[4] != 0;
        has_oci |= is_used && word(&descriptor, 0) == OCI_INDEX;
        // The extra bytes of a descriptor: a partition's file system, use and processor.
        let extra = &descriptor[DESCRIPTOR - 384..];
        if !is_used || word(&descriptor, 0) != PARTITION {
            continue;
        }
        match word(extra, 4) {
            PRIMARY_SYSTEM if root.is_none() => {
                check(path, word(extra, 0), &extra[8..10])?;
                let (start, size) = (number(&descriptor, 17), number(&descriptor, 25));
                let bytes = whole.from(start).and_then(|rest| rest.first(size));
                root = Some(squashfs::SquashfsImage {
                    bytes: bytes.ok_or_else(outside)?,
                    place: format!("the root partition of {place}"),
                });
            }
            OVERLAY => overlay = Some(word(&descriptor, 5)),
            _ => {}
        }
    }
    if let Some(id) = overlay {
        let what = format!(
            "has an overlay partition (data object {id}), which Apptainer lays over its root and which is not read: \
             save what it shows with `apptainer exec {place} tar -C / --one-file-system -cf root.tar .`, or drop the overlay with \
             `apptainer sif del {id} {place}`"
        );
        return Err(SourceError::unsupported(place, what));
    }
    if let Some(root) = root {
        return Ok(root);
    }
    let what = match has_oci {
        true => "is an OCI-SIF: make it again with `--no-oci`, or save the image as an OCI archive",
        false => "has no primary system partition: build it with `apptainer build`",
    };
    Err(SourceError::unsupported(place, what))
}

/// Reads a script by its path in the tree; `None` if it is not a file or too long.
type ScriptReader<'a> = dyn Fn(&[u8]) -> Result<Option<Vec<u8>>, SourceError> + 'a;

/// The variables that the scripts of an Apptainer image set, and warnings about skipped lines.
pub(super) fn environment(
    tree: &FileTree,
    bytes: &ScriptReader<'_>,
) -> Result<(BTreeMap<String, String>, Vec<String>), SourceError> {
    let mut environment = Environment::new();
    let scripts = tree.children(ENVIRONMENT).map(|(name, _)| name);
    let is_read = |name: &&[u8]| name.ends_with(b".sh") && !OWN.contains(name);
    for name in scripts.filter(is_read) {
        let path = [ENVIRONMENT, b"/", name].concat();
        let text = bytes(&path)?.unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        environment.read(&name, &String::from_utf8_lossy(&text));
    }
    Ok(environment.finish())
}

fn check(path: &Path, file_system: u32, processor: &[u8]) -> Result<(), SourceError> {
    let place = path.display();
    if file_system == ENCRYPTED {
        return Err(SourceError::unsupported(
            place,
            "is encrypted: build it without `--encrypt`",
        ));
    }
    if file_system != SQUASHFS {
        let what =
            "has a root partition that is no squashfs: build it again with `apptainer build`";
        return Err(SourceError::unsupported(place, what));
    }
    // 00 is an unknown processor.
    if processor != AMD64 && processor != b"00" {
        let names = [
            "386", "amd64", "arm", "arm64", "ppc64", "ppc64le", "mips", "mipsle",
        ];
        let named = std::str::from_utf8(processor)
            .ok()
            .and_then(|text| text.parse::<usize>().ok());
        let name = named.and_then(|number| names.get(number.checked_sub(1)?));
        return Err(SourceError::Platform {
            place: place.to_string(),
            platforms: format!("linux/{}", name.unwrap_or(&"another processor")),
        });
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}
