//! OCI layouts and archives of `docker save`.

use serde_json::{Value, json};

use super::*;

/// Files of a container image by their names.
pub(crate) type Blobs = BTreeMap<String, Vec<u8>>;

pub(crate) fn put(blobs: &mut Blobs, bytes: &[u8]) -> Value {
    let digest = digest(bytes);
    blobs.insert(format!("blobs/sha256/{digest}"), bytes.to_vec());
    json!({"digest": format!("sha256:{digest}"), "size": bytes.len()})
}

fn config(layers: &[Vec<u8>], architecture: &str) -> Vec<u8> {
    let diff_ids: Vec<String> = layers
        .iter()
        .map(|layer| format!("sha256:{}", digest(layer)))
        .collect();
    let config = json!({
        "architecture": architecture, "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "config": {"Env": ["A=b", "P=x=y"], "WorkingDir": "/w", "User": "1:2", "Entrypoint": ["e"], "Cmd": null},
    });
    config.to_string().into_bytes()
}

/// A manifest's descriptor; layers are compressed in turn by gzip, by zstd and not.
fn image(blobs: &mut Blobs, layers: &[Vec<u8>], architecture: &str) -> Value {
    let config = put(blobs, &config(layers, architecture));
    let mut packed = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let (bytes, kind) = match number % 3 {
            0 => (gzip(layer), "application/vnd.oci.image.layer.v1.tar+gzip"),
            1 => (zstd(layer), "application/vnd.oci.image.layer.v1.tar+zstd"),
            _ => (layer.clone(), "application/vnd.oci.image.layer.v1.tar"),
        };
        let mut descriptor = put(blobs, &bytes);
        descriptor["mediaType"] = json!(kind);
        packed.push(descriptor);
    }
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": packed});
    put(blobs, manifest.to_string().as_bytes())
}

/// A layout of the images with these tags.
pub(crate) fn oci(images: &[(&str, &[Vec<u8>])]) -> Blobs {
    let mut blobs = Blobs::new();
    let mut manifests = Vec::new();
    for (tag, layers) in images {
        let mut descriptor = image(&mut blobs, layers, "amd64");
        descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        manifests.push(descriptor);
    }
    finish(&mut blobs, manifests);
    blobs
}

fn finish(blobs: &mut Blobs, manifests: Vec<Value>) {
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    blobs.insert(
        "oci-layout".into(),
        br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(),
    );
    blobs.insert("index.json".into(), index.to_string().into_bytes());
}

fn docker(layers: &[Vec<u8>], is_new: bool) -> Blobs {
    let mut blobs = if is_new {
        oci(&[("latest", layers)])
    } else {
        Blobs::new()
    };
    let config = config(layers, "amd64");
    let name = match is_new {
        true => format!("blobs/sha256/{}", digest(&config)),
        false => format!("{}.json", digest(&config)),
    };
    blobs.insert(name.clone(), config);
    let mut names = Vec::new();
    for layer in layers {
        let name = match is_new {
            true => format!("blobs/sha256/{}", digest(layer)),
            false => format!("{}/layer.tar", digest(&[&b"id"[..], &layer[..]].concat())),
        };
        blobs.insert(name.clone(), layer.clone());
        names.push(name);
    }
    let manifest = json!([{"Config": name, "RepoTags": ["here/app:1"], "Layers": names}]);
    blobs.insert("manifest.json".into(), manifest.to_string().into_bytes());
    blobs
}

pub(crate) fn as_folder(blobs: &Blobs) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("makes");
    for (name, bytes) in blobs {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("makes");
        std::fs::write(path, bytes).expect("writes");
    }
    folder
}

pub(crate) fn as_tar(blobs: &Blobs) -> Vec<u8> {
    let entry = |(name, bytes): (&String, &Vec<u8>)| Made {
        kind: EntryType::Regular,
        path: name.clone().into_bytes(),
        data: bytes.clone(),
    };
    tar(&blobs.iter().map(entry).collect::<Vec<_>>())
}

pub(crate) fn two_layers() -> Vec<Vec<u8>> {
    let lower = tar(&[folder("./a/"), file("./a/one", "1"), file("a/two", "two")]);
    let upper = tar(&[
        file("a/.wh.two", ""),
        file("/a/three", "333"),
        file("a/one", "new"),
    ]);
    let third = tar(&[file("b", "b")]);
    vec![lower, upper, third]
}

#[test]
fn every_form_of_an_image_gives_the_same() {
    let layers = two_layers();
    let expected = pairs(&[
        ("", "D"),
        ("a", "D"),
        ("a/one", "new"),
        ("a/three", "333"),
        ("b", "b"),
    ]);
    let mut digests = Vec::new();
    let mut check = |path: &Path, kind: SourceKind| {
        let source = Source::open(path, None).expect("opens");
        assert_eq!(source.kind(), kind);
        let listing = source.read().expect("reads");
        assert_eq!(texts(&listing), expected);
        assert_eq!(
            listing.config.environment,
            pairs(&[("A", "b"), ("P", "x=y")])
        );
        assert_eq!(listing.config.user.as_deref(), Some("1:2"));
        assert_eq!(listing.config.entrypoint, ["e"]);
        assert_eq!(listing.config.architecture.as_deref(), Some("amd64"));
        digests.push(listing.digest);
    };
    let forms = [
        (
            oci(&[("x", &layers)]),
            SourceKind::OciLayout,
            SourceKind::OciArchive,
        ),
        (
            docker(&layers, false),
            SourceKind::DockerArchive,
            SourceKind::DockerArchive,
        ),
        (
            docker(&layers, true),
            SourceKind::DockerArchive,
            SourceKind::DockerArchive,
        ),
    ];
    for (blobs, in_folder, in_tar) in forms {
        check(as_folder(&blobs).path(), in_folder);
        let plain = as_tar(&blobs);
        for bytes in [gzip(&plain), xz(&plain), zstd(&plain), plain] {
            check(&written(&bytes).1.clone(), in_tar);
        }
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
}

#[test]
fn a_tag_chooses_and_an_error_lists() {
    let (one, two) = (vec![tar(&[file("1", "")])], vec![tar(&[file("2", "")])]);
    let folder = as_folder(&oci(&[("x/app:1", &one), ("x/app:2", &two)]));
    for (tag, name) in [("x/app:1", "1"), ("2", "2")] {
        let listing = Source::open(folder.path(), Some(tag))
            .expect("opens")
            .read()
            .expect("reads");
        assert!(listing.tree.find(name.as_bytes()).is_some());
    }
    for tag in [None, Some("3"), Some("app")] {
        let error = Source::open(folder.path(), tag)
            .expect_err("is ambiguous")
            .to_string();
        assert!(error.contains("x/app:1, x/app:2"), "{error}");
    }
    let plain = written(&one[0]);
    assert!(matches!(
        Source::open(&plain.1, Some("1")),
        Err(SourceError::Tag { .. })
    ));
    let docker = written(&as_tar(&docker(&one, false)));
    assert!(Source::open(&docker.1, Some("here/app:1")).is_ok());
    assert!(matches!(
        Source::open(&docker.1, Some("2")),
        Err(SourceError::Tag { .. })
    ));
}

#[test]
fn the_platform_is_chosen_in_nested_indexes() {
    let layers = vec![tar(&[file("here", "")])];
    for platforms in [&["arm64", "amd64"][..], &["arm64", "s390x"]] {
        let mut blobs = Blobs::new();
        let mut manifests = Vec::new();
        for architecture in platforms {
            let mut descriptor = image(&mut blobs, &layers, architecture);
            descriptor["platform"] = json!({"os": "linux", "architecture": architecture});
            manifests.push(descriptor);
        }
        let mut attestation = manifests[0].clone();
        attestation["platform"] = json!({"os": "unknown", "architecture": "unknown"});
        manifests.push(attestation);
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        let nested = put(&mut blobs, index.to_string().as_bytes());
        finish(&mut blobs, vec![nested]);
        match (read(as_folder(&blobs).path()), platforms[1]) {
            (Ok(listing), "amd64") => assert!(listing.tree.find(b"here").is_some()),
            (Err(error @ SourceError::Platform { .. }), _) => {
                assert!(
                    error.to_string().contains("linux/arm64, linux/s390x"),
                    "{error}"
                );
            }
            (other, _) => panic!("{:?}", other.err()),
        }
    }
}

#[test]
fn a_blob_that_is_not_its_digest_is_named() {
    let blobs = oci(&[("x", &two_layers())]);
    let names: Vec<&String> = blobs
        .keys()
        .filter(|name| name.starts_with("blobs/"))
        .collect();
    assert_eq!(names.len(), 5);
    for name in names {
        let mut changed = blobs.clone();
        let bytes = changed.get_mut(name).expect("is there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let error = read(as_folder(&changed).path()).expect_err("is changed");
        assert!(matches!(error, SourceError::Digest { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
        changed.remove(name);
        let error = read(as_folder(&changed).path())
            .expect_err("is missing")
            .to_string();
        assert!(error.contains("missing") && error.contains(name), "{error}");
    }
    // A `layer.tar` has no digest except in the configuration.
    let layers = two_layers();
    let mut blobs = docker(&layers, false);
    for (name, bytes) in &mut blobs {
        if name.ends_with("layer.tar") {
            *bytes = tar(&[file("other", "")]);
        }
    }
    let error = read(&written(&as_tar(&blobs)).1.clone());
    assert!(error.is_err());
    let kept = written(&as_tar(&blobs));
    assert!(matches!(read(&kept.1), Err(SourceError::Digest { .. })));
}

#[test]
fn a_layer_that_changes_between_the_passes_is_an_error() {
    let folder = as_folder(&oci(&[("x", &two_layers())]));
    let listing = read(folder.path()).expect("reads");
    let layer = digest(&two_layers()[2]);
    let path = folder.path().join("blobs/sha256").join(layer);
    let mut bytes = std::fs::read(&path).expect("reads");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(path, bytes).expect("writes");
    assert!(listing.copy(&mut Kept::default()).is_err());
}
