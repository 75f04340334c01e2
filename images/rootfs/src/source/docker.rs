//! Archives of `docker save` and `podman save`: `manifest.json` names each image's configuration and
//! layers.
//!
//! Layers are `ID/layer.tar` or, since Docker 25, blobs of an OCI layout, whose names are their digests.

use std::sync::Arc;

use serde::Deserialize;

use super::SourceError;
use super::blobs::Blobs;
use super::config::{Config, ImageConfig, or_default};
use super::layers::{LayerBlob, Layers, MOST_LAYERS};
use super::oci::{check_digest, check_platform, is_sha256, is_tag, no_such_tag, sha256};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default, deserialize_with = "or_default")]
    repo_tags: Vec<String>,
    layers: Vec<String>,
}

/// True if a folder is an unpacked archive of that kind, rather than a root with a file of that name.
pub(super) fn is_here(blobs: &Blobs) -> bool {
    let images = || blobs.json::<Vec<DockerImage>>("manifest.json").ok();
    blobs.has("manifest.json")
        && images().is_some_and(|images| images.iter().all(|image| blobs.has(&image.config)))
}

/// The image that the tag selects.
///
/// # Errors
/// When the tag selects no or several images, when it isn't for linux/amd64, or a document is damaged.
pub(super) fn open(blobs: Arc<Blobs>, tag: Option<&str>) -> Result<(Layers, Config), SourceError> {
    let images: Vec<DockerImage> = blobs.json("manifest.json")?;
    let has_tag = |image: &&DockerImage| match tag {
        Some(tag) => image.repo_tags.iter().any(|name| is_tag(name, tag)),
        None => true,
    };
    let chosen: Vec<&DockerImage> = images.iter().filter(has_tag).collect();
    let &[image] = &chosen[..] else {
        let tags: Vec<&str> = images
            .iter()
            .flat_map(|image| &image.repo_tags)
            .map(String::as_str)
            .collect();
        return Err(no_such_tag(&blobs, tag, chosen.is_empty(), &tags));
    };
    let bytes = blobs.bytes(&image.config)?;
    let found = super::compression::hex(&<sha2::Sha256 as sha2::Digest>::digest(&bytes));
    if let Some(digest) = digest_of_name(&image.config) {
        check_digest(&blobs, &image.config, &bytes, digest)?;
    }
    let config: ImageConfig = blobs.parse(&image.config, &bytes)?;
    let place = blobs.place(&image.config);
    check_platform(place.clone(), &config)?;
    let diff_ids = &config.rootfs.diff_ids;
    if image.layers.len() > MOST_LAYERS || diff_ids.len() != image.layers.len() {
        let why = format!(
            "it names {} layers, the manifest {}",
            diff_ids.len(),
            image.layers.len()
        );
        return Err(SourceError::damaged(place, why));
    }
    let layer = |(name, diff_id): (&String, &String)| {
        // The folder's name of a `layer.tar`, or the name of a `.tar`, is not the digest of its data in
        // every version.
        let is_blob = name.starts_with("blobs/sha256/");
        Ok(LayerBlob {
            name: name.clone(),
            digest: digest_of_name(name).filter(|_| is_blob).map(str::to_owned),
            size: None,
            diff_id: Some(sha256(&blobs, diff_id)?),
        })
    };
    let layers: Result<_, SourceError> = image.layers.iter().zip(diff_ids).map(layer).collect();
    let layers = Layers {
        layers: layers?,
        config: Some(found),
        blobs,
    };
    Ok((layers, config.config()))
}

/// The digest in the name of a blob or configuration.
fn digest_of_name(name: &str) -> Option<&str> {
    let last = name.rsplit('/').next()?;
    Some(last.strip_suffix(".json").unwrap_or(last)).filter(|digest| is_sha256(digest))
}
