//! OCI image layouts: an index names manifests, a manifest names the configuration and the layers.
//!
//! Everything with a digest is compared with it before it is used, and nesting of indexes is bounded. Called for folders and archives that
//! are OCI layouts; docker's archives use the functions for tags and digests, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::SourceError;
use super::blobs::Blobs;
use super::compression::hex;
use super::config::{Config, ImageConfig, or_default};
use super::layers::{LayerBlob, Layers, MOST_LAYERS};

/// Limit on the nesting of indexes.
const DEEPEST_INDEX: usize = 4;
const REFERENCE: &str = "org.opencontainers.image.ref.name";
/// The whole name, as containerd and `docker buildx` write it.
const WHOLE_NAME: &str = "io.containerd.image.name";

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default, deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

/// An index or a manifest, depending on its fields.
#[derive(Debug, Deserialize)]
struct Document {
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default, deserialize_with = "or_default")]
    layers: Vec<Descriptor>,
}

/// The image of a layout that the tag selects.
///
/// # Errors
/// When the tag selects no or several images, when none is for linux/amd64, or a document is damaged.
pub(super) fn open(blobs: Arc<Blobs>, tag: Option<&str>) -> Result<(Layers, Config), SourceError> {
    let index: Document = blobs.json("index.json")?;
    let place = || blobs.place("index.json");
    let entries = index.manifests.unwrap_or_default();
    let entries: Vec<Descriptor> = entries.into_iter().filter(Descriptor::is_image).collect();
    let chosen: Vec<Descriptor> = match tag {
        Some(tag) => entries
            .iter()
            .filter(|entry| entry.has_tag(tag))
            .cloned()
            .collect(),
        None => entries.clone(),
    };
    let is_one = chosen.len() == 1 || chosen.iter().all(|entry| entry.platform.is_some());
    if chosen.is_empty() || !is_one && chosen.iter().any(|entry| entry.digest != chosen[0].digest) {
        let tags: Vec<&str> = entries.iter().filter_map(Descriptor::name).collect();
        return Err(no_such_tag(&blobs, tag, chosen.is_empty(), &tags));
    }
    let mut descriptor = for_this_platform(place(), &chosen)?;
    for _ in 0..DEEPEST_INDEX {
        let document: Document = blob(&blobs, &descriptor)?;
        if let Some(config) = &document.config {
            return image(&blobs, config, &document.layers);
        }
        let name = name(&blobs, &descriptor)?;
        let entries = document.manifests.unwrap_or_default();
        let entries: Vec<Descriptor> = entries.into_iter().filter(Descriptor::is_image).collect();
        descriptor = for_this_platform(blobs.place(&name), &entries)?;
    }
    Err(SourceError::damaged(
        place(),
        "its indexes are nested too deeply",
    ))
}

/// The error for a tag that selects no image, or for a missing tag.
pub(super) fn no_such_tag(
    blobs: &Blobs,
    tag: Option<&str>,
    is_none: bool,
    tags: &[&str],
) -> SourceError {
    let what = match (tag, is_none) {
        (Some(tag), true) => format!("has no image {tag:?}"),
        (Some(tag), false) => format!("has several images {tag:?}: give its whole name"),
        (None, true) => "has no image".to_owned(),
        (None, false) => "has several images: give the tag of one".to_owned(),
    };
    let shown: Vec<&str> = tags.iter().take(100).copied().collect();
    SourceError::Tag {
        path: blobs.path().display().to_string(),
        what,
        tags: if shown.is_empty() {
            "none with a tag".to_owned()
        } else {
            shown.join(", ")
        },
    }
}

/// True if a whole name equals the tag or ends in it, as in `ubuntu:24.04` and `24.04`.
pub(super) fn is_tag(name: &str, tag: &str) -> bool {
    let part = name
        .rsplit_once(':')
        .map(|(_, part)| part)
        .filter(|part| !part.contains('/'));
    name == tag || part == Some(tag)
}

/// Checks that the configuration's platform is linux/amd64.
pub(super) fn check_platform(place: String, config: &ImageConfig) -> Result<(), SourceError> {
    let os = config
        .os
        .as_deref()
        .filter(|os| !os.is_empty())
        .unwrap_or("linux");
    let architecture = config
        .architecture
        .as_deref()
        .filter(|name| !name.is_empty());
    let architecture = architecture.unwrap_or("amd64");
    if (os, architecture) == ("linux", "amd64") {
        return Ok(());
    }
    let platforms = format!("{os}/{architecture}");
    Err(SourceError::Platform { place, platforms })
}

impl Descriptor {
    /// True unless it is an attestation, which `docker buildx` adds next to images with an unknown platform.
    fn is_image(&self) -> bool {
        let is_unknown = |platform: &Platform| platform.os == "unknown";
        !self.annotations.contains_key("vnd.docker.reference.type")
            && !self.platform.as_ref().is_some_and(is_unknown)
    }

    fn name(&self) -> Option<&str> {
        let annotation = |key: &str| self.annotations.get(key).map(String::as_str);
        annotation(WHOLE_NAME).or(annotation(REFERENCE))
    }

    fn has_tag(&self, tag: &str) -> bool {
        let names = [WHOLE_NAME, REFERENCE].map(|key| self.annotations.get(key));
        names.into_iter().flatten().any(|name| is_tag(name, tag))
    }
}

/// The only entry, or the entry for linux/amd64.
fn for_this_platform(place: String, entries: &[Descriptor]) -> Result<Descriptor, SourceError> {
    let is_here = |platform: &Platform| platform.os == "linux" && platform.architecture == "amd64";
    let platform = |entry: &&Descriptor| entry.platform.as_ref().is_some_and(is_here);
    if let Some(entry) = entries.iter().find(platform) {
        return Ok(entry.clone());
    }
    match entries {
        [] => Err(SourceError::damaged(place, "it names no image")),
        [one, ..] if one.platform.is_none() => Ok(one.clone()),
        _ => {
            let names = entries
                .iter()
                .filter_map(|entry| entry.platform.as_ref())
                .take(100);
            let names: Vec<String> = names
                .map(|platform| format!("{}/{}", platform.os, platform.architecture))
                .collect();
            let platforms = names.join(", ");
            Err(SourceError::Platform { place, platforms })
        }
    }
}

fn image(
    blobs: &Arc<Blobs>,
    descriptor: &Descriptor,
    layers: &[Descriptor],
) -> Result<(Layers, Config), SourceError> {
    let config: ImageConfig = blob(blobs, descriptor)?;
    let place = blobs.place(&name(blobs, descriptor)?);
    check_platform(place.clone(), &config)?;
    let diff_ids = &config.rootfs.diff_ids;
    if layers.len() > MOST_LAYERS || diff_ids.len() != layers.len() {
        let why = format!(
            "it names {} layers, the manifest {}",
            diff_ids.len(),
            layers.len()
        );
        return Err(SourceError::damaged(place, why));
    }
    let layer = |(layer, diff_id): (&Descriptor, &String)| {
        if !layer.media_type.contains("tar") && !layer.media_type.is_empty() {
            let what = format!(
                "is a layer of the type {:?}, no tar: it is no container image",
                layer.media_type
            );
            return Err(SourceError::unsupported(blobs.place(&layer.digest), what));
        }
        Ok(LayerBlob {
            name: name(blobs, layer)?,
            digest: Some(sha256(blobs, &layer.digest)?),
            size: Some(layer.size),
            diff_id: Some(sha256(blobs, diff_id)?),
        })
    };
    let layers: Result<_, _> = layers.iter().zip(diff_ids).map(layer).collect();
    let layers = Layers {
        blobs: blobs.clone(),
        layers: layers?,
        config: Some(sha256(blobs, &descriptor.digest)?),
    };
    Ok((layers, config.config()))
}

/// A JSON blob, after a check of its digest.
fn blob<T: serde::de::DeserializeOwned>(
    blobs: &Blobs,
    descriptor: &Descriptor,
) -> Result<T, SourceError> {
    let name = name(blobs, descriptor)?;
    let bytes = blobs.bytes(&name)?;
    check_digest(blobs, &name, &bytes, &sha256(blobs, &descriptor.digest)?)?;
    blobs.parse(&name, &bytes)
}

/// Checks a document's bytes against its digest in hexadecimal.
pub(super) fn check_digest(
    blobs: &Blobs,
    name: &str,
    bytes: &[u8],
    expected: &str,
) -> Result<(), SourceError> {
    let found = hex(&Sha256::digest(bytes));
    if found == expected {
        return Ok(());
    }
    Err(SourceError::Digest {
        place: blobs.path().display().to_string(),
        blob: format!("blob {name}"),
        expected: expected.to_owned(),
        found,
    })
}

fn name(blobs: &Blobs, descriptor: &Descriptor) -> Result<String, SourceError> {
    Ok(format!(
        "blobs/sha256/{}",
        sha256(blobs, &descriptor.digest)?
    ))
}

/// The hexadecimal digits of a SHA-256 digest as descriptors write it.
pub(super) fn sha256(blobs: &Blobs, digest: &str) -> Result<String, SourceError> {
    let hex = digest.strip_prefix("sha256:").filter(|hex| is_sha256(hex));
    hex.map(str::to_owned).ok_or_else(|| {
        SourceError::unsupported(
            blobs.place(digest),
            "has a digest that is none of SHA-256: save the image with sha256 digests",
        )
    })
}

/// True if a text is a SHA-256 digest in lower-case hexadecimal.
pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
