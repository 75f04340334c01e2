//! Images whose root file system is a container image or the user's own. Kernel and initramfs are those of the base
//! recipe, whose image is built first; the root is written straight from the source, byte for byte. Called by
//! [`build_in`](crate::build_in).

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use belljar_rootfs::{ErofsWriter, FileSink, Listing, NodeId, Source, SourceKind};

use crate::build::error::ImageError;
use crate::build::locks::{self, LockUse};
use crate::debian::lockfile::Lock;
use crate::filesystem::data::Data;
use crate::progress::BuildProgress;
use crate::recipe::{Recipe, RecipeRoot};
use crate::store::cache::Cache;
use crate::store::manifest::{
    Container, INFINIBAND, INITRD, Image, ImageFile, KERNEL, MANIFEST, Manifest, NFS, ROOT,
};

/// Steps of a build, for its progress.
const STEPS: u32 = 2;
/// The architecture of nodes, as container images name it.
const ARCHITECTURE: &str = "amd64";

/// Builds the image of `recipe` with the root `root`, or returns the existing one.
pub(crate) fn build(
    cache: &Cache,
    recipe: &Recipe,
    root: &RecipeRoot,
    locks: LockUse,
    report: &mut dyn FnMut(BuildProgress),
) -> Result<Image, ImageError> {
    let key = recipe.key();
    let base = Recipe::load(&root.base)?;
    let base = super::build_in(cache, &base, locks, report)?;
    let mut damaged = Vec::new();
    let _lock = cache.lock(&key, &mut || report(BuildProgress::Waiting))?;
    if let Some(image) = cache.find_whole(&key, &mut |why| damaged.push(why))? {
        return Ok(image);
    }
    for why in damaged {
        report(BuildProgress::Note(format!("{why}; it is built again")));
    }
    let work = cache.work_folder()?;
    let folder = work.path().join("image");
    fs::create_dir(&folder).map_err(write(&folder))?;
    let making = RootImageBuild {
        recipe,
        root,
        base: &base,
        folder: &folder,
    };
    making.run(report)?;
    if Recipe::load(recipe.path())?.key() != key {
        let recipe = recipe.path().to_owned();
        return Err(ImageError::Changed { recipe });
    }
    Ok(cache.publish(&folder, &key)?)
}

/// An image that is being built.
struct RootImageBuild<'a> {
    recipe: &'a Recipe,
    root: &'a RecipeRoot,
    base: &'a Image,
    /// The folder that becomes the image's.
    folder: &'a Path,
}

impl RootImageBuild<'_> {
    fn run(&self, report: &mut dyn FnMut(BuildProgress)) -> Result<(), ImageError> {
        let from = &self.root.source;
        let mut step = |number, what: String| {
            let of = STEPS;
            report(BuildProgress::Step { number, of, what });
        };
        let source = Source::open(from.path(), from.tag())?;
        step(1, format!("reading {}", from.path().display()));
        let listing = source.read()?;
        fits(from.path(), &listing)?;
        step(2, "writing the root file system".to_owned());
        for warning in &listing.warnings {
            report(BuildProgress::Note(format!(
                "{}: {warning}",
                from.path().display()
            )));
        }
        let (environment, left_out) = variables(&listing.config.environment);
        if !left_out.is_empty() {
            report(BuildProgress::Note(format!(
                "{}: variables of the image are left out, as no shell hands on such names: {}",
                from.path().display(),
                left_out.join(", ")
            )));
        }
        let root = self.write_root(&listing)?;
        let nfs = self.base.nfs.as_ref().map(|path| (NFS, path));
        let infiniband = self.base.infiniband.as_ref().map(|path| (INFINIBAND, path));
        let of_base = [(KERNEL, &self.base.kernel), (INITRD, &self.base.initrd)];
        for (name, from) in of_base.into_iter().chain(nfs).chain(infiniband) {
            let to = self.folder.join(name);
            fs::copy(from, &to).map_err(write(&to))?;
        }
        if let Some(lock) = Lock::read(&locks::of_image(&self.base.dir))? {
            locks::keep(&lock, self.folder)?;
        }
        let text = self.manifest(environment, listing.digest, source.kind(), root);
        let text = text.seal();
        let manifest = self.folder.join(MANIFEST);
        fs::write(&manifest, text).map_err(write(&manifest))
    }

    fn write_root(&self, listing: &Listing) -> Result<ImageFile, ImageError> {
        let path = self.folder.join(ROOT);
        let mut sink = Sink(ErofsWriter::create(&listing.tree, &path)?);
        listing.copy(&mut sink)?;
        sink.0.finish()?;
        let size = fs::metadata(&path).map_err(write(&path))?.len();
        let data = Data::Path {
            path: path.clone(),
            size,
        };
        let sha256 = data.sha256().map_err(write(&path))?;
        Ok(ImageFile { size, sha256 })
    }

    fn manifest(
        &self,
        mut environment: BTreeMap<String, String>,
        digest: String,
        kind: SourceKind,
        root: ImageFile,
    ) -> Manifest {
        let of = &self.base.manifest;
        let from = &self.root.source;
        environment.extend(of.environment.clone());
        environment.extend(self.recipe.spec().environment.clone());
        Manifest {
            recipe: self.recipe.name().to_owned(),
            key: self.recipe.key(),
            kernel_release: of.kernel_release.clone(),
            modules: of.modules.clone(),
            verified_files: of.verified_files,
            container: Some(Container {
                kind: kind.to_string(),
                path: from.path().to_string_lossy().into_owned(),
                tag: from.tag().map(str::to_owned),
                sha256: digest,
            }),
            environment,
            kernel: of.kernel.clone(),
            initrd: of.initrd.clone(),
            root,
            nfs: of.nfs.clone(),
            infiniband: of.infiniband.clone(),
            ours: initramfs_files(of),
        }
    }
}

fn initramfs_files(of: &Manifest) -> Vec<crate::store::manifest::OurFile> {
    let ours = of.ours.iter().filter(|file| file.tree == "initramfs");
    ours.cloned().collect()
}

/// Checks that nodes can run the image's architecture.
fn fits(path: &Path, listing: &Listing) -> Result<(), ImageError> {
    match listing.config.architecture.as_deref() {
        None | Some(ARCHITECTURE) => Ok(()),
        Some(other) => Err(ImageError::Architecture {
            path: path.to_owned(),
            architecture: other.to_owned(),
        }),
    }
}

/// Splits a container image's environment: variables that are valid for a workload, and names of the others. A valid
/// name has letters, digits and `_`, and does not start with a digit.
fn variables(all: &BTreeMap<String, String>) -> (BTreeMap<String, String>, Vec<String>) {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = |name: &str, value: &str| {
        let starts = name
            .bytes()
            .next()
            .is_some_and(|byte| !byte.is_ascii_digit());
        starts && name.bytes().all(is_letter) && !value.contains('\0')
    };
    let (kept, others): (BTreeMap<_, _>, BTreeMap<_, _>) = all
        .clone()
        .into_iter()
        .partition(|(name, value)| fits(name, value));
    let shown = |name: String| {
        name.chars()
            .take(80)
            .collect::<String>()
            .escape_debug()
            .to_string()
    };
    (kept, others.into_keys().map(shown).collect())
}

fn write(path: &Path) -> impl FnOnce(io::Error) -> ImageError + use<> {
    let path: PathBuf = path.to_owned();
    move |source| ImageError::Write { path, source }
}

/// Copies files from a source to an image.
struct Sink<'a>(ErofsWriter<'a>);

impl FileSink for Sink<'_> {
    fn wants(&self, id: NodeId) -> bool {
        self.0.wants(id)
    }

    fn file(&mut self, id: NodeId, data: &mut dyn Read) -> io::Result<()> {
        self.0.file(id, data).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_lines_stay_and_names_that_no_shell_has_are_named() {
        let all = [
            ("A", "1\n2"),
            ("a.b", "3"),
            ("1C", "4"),
            ("_d", "5"),
            ("F%%", "() {\n}"),
        ];
        let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (kept, left_out) = variables(&BTreeMap::from(all));
        assert_eq!(kept.into_keys().collect::<Vec<_>>(), ["A", "_d"]);
        assert_eq!(left_out, ["1C", "F%%", "a.b"]);
    }
}
