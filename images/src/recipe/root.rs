//! Container images and root file systems, given instead of a recipe or named in one.
//!
//! Any other path or name is a recipe's. A container image or root file system given instead of a recipe extends
//! [`load::ROOT_BASE`] without additions. Called by [`Recipe::load`](super::Recipe::load).

use std::fs::File;
use std::io::Read;

use super::check::bad;
use super::load::{self, Loaded};
use super::{BTreeMap, Home, Layer, Path, PathBuf, RecipeError, RecipeRoot, Spec, merge};
use crate::build::root_source::RootSource;

/// The path and the tag, if `path` names a container image or a root file system.
pub(super) fn named(path: &Path) -> Option<(PathBuf, Option<String>)> {
    if load::is_built_in(path) {
        return None;
    }
    if is_one(path) {
        return Some((path.to_owned(), None));
    }
    let text = path.to_str().filter(|_| !path.exists())?;
    let (before, tag) = text.rsplit_once(':')?;
    let before = Path::new(before);
    is_one(before).then(|| (before.to_owned(), Some(tag.to_owned())))
}

/// True for a folder, and for a file with the magic of an archive or file system.
fn is_one(path: &Path) -> bool {
    /// Offsets and magics of gzip, xz, Zstandard, SquashFS, tar and SIF.
    const STARTS: [(usize, &[u8]); 6] = [
        (0, b"\x1f\x8b"),
        (0, b"\xfd7zXZ"),
        (0, b"\x28\xb5\x2f\xfd"),
        (0, b"hsqs"),
        (257, b"ustar"),
        (32, b"SIF_MAGIC"),
    ];
    if path.extension().is_some_and(|end| end == "toml") {
        return false;
    }
    if !path.is_file() {
        return path.is_dir();
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(512).read_to_end(&mut start));
    let begins =
        |(at, magic): &(usize, &[u8])| start.get(*at..).is_some_and(|rest| rest.starts_with(magic));
    read.is_ok() && STARTS.iter().any(begins)
}

/// A recipe with the file system at `source` and nothing else.
pub(super) fn load(path: &Path, source: &Path, tag: Option<String>) -> Result<Loaded, RecipeError> {
    let base = PathBuf::from(load::ROOT_BASE);
    let Loaded {
        spec, mut layers, ..
    } = load::load(&base)?;
    let name = name(source);
    let mut own: Spec = toml::from_str(&format!("name = {name:?}\n")).map_err(|error| {
        let (path, message) = (path.to_owned(), error.to_string());
        RecipeError::Root { path, message }
    })?;
    let full = std::path::absolute(source).unwrap_or_else(|_| source.to_owned());
    own.root = Some(super::spec::Root {
        path: full.to_string_lossy().into_owned(),
        tag,
    });
    layers.push(Layer {
        home: Home::Folder(PathBuf::from(".")),
        text: name.into_bytes(),
        files: BTreeMap::new(),
        trees: BTreeMap::new(),
    });
    let spec = merge::over(spec, own);
    let base = Some(base);
    Ok(Loaded { spec, layers, base })
}

/// The root file system that a recipe uses instead of packages.
pub(super) fn of(path: &Path, loaded: &Loaded) -> Result<Option<RecipeRoot>, RecipeError> {
    let (Some(root), Some(base)) = (&loaded.spec.root, &loaded.base) else {
        return Ok(None);
    };
    let Some(Home::Folder(folder)) = loaded.layers.last().map(|layer| &layer.home) else {
        return Err(bad(path, "root.path", &root.path, "is not in the program"));
    };
    let at = folder.join(&root.path);
    let source = RootSource::open(&at, root.tag.as_deref()).map_err(|message| {
        let path = at.clone();
        RecipeError::Root { path, message }
    })?;
    let base = base.clone();
    Ok(Some(RecipeRoot { source, base }))
}

/// A recipe's name, from a file's name without folder and extension.
fn name(source: &Path) -> String {
    let stem = source.file_name().unwrap_or_default().to_string_lossy();
    let endings = [".gz", ".xz", ".zst", ".tgz", ".tar", ".sif", ".oci"];
    let mut stem = &*stem;
    for ending in endings {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "-.+_".contains(c) => c,
        _ => '_',
    };
    let name: String = stem.chars().map(plain).collect();
    let name = name.trim_start_matches(['-', '.', '+', '_']);
    if name.is_empty() { "root" } else { name }.to_owned()
}
