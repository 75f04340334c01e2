//! A build in progress: from a recipe's packages to the files of its image. Assembled files stay on the
//! disk and are copied and checked in chunks, since an image may be larger than memory. Called by
//! [`build_in`](crate::build_in), in a temporary folder that is removed with its contents.

use std::fs;
use std::path::{Path, PathBuf};

use crate::build::error::ImageError;
use crate::build::locks::{self, LockUse};
use crate::debian::bootstrap;
use crate::debian::chroot::Chroot;
use crate::debian::digest;
use crate::debian::fetch::{self, Apt};
use crate::debian::lockfile::Lock;
use crate::debian::packages::{self, PackageError, Packages, Used};
use crate::filesystem::contents::{ContentsError, Item, Origin, TreeContents};
use crate::filesystem::data::Data;
use crate::filesystem::initrd;
use crate::filesystem::kernel::UnpackedKernel;
use crate::filesystem::layout::{RecipeLayout, module_file};
use crate::filesystem::module_archive::{self, INFINIBAND_MODULES, ModuleArchive, NFS_MODULES};
use crate::filesystem::rootfs;
use crate::progress::BuildProgress;
use crate::recipe::Recipe;
use crate::store::manifest::{INITRD, ImageFile, KERNEL, MANIFEST, Manifest, OurFile, ROOT};

/// Steps of a build, for its progress.
const STEPS: u32 = 4;

/// A build in progress.
pub(crate) struct ImageBuilder<'a> {
    pub(crate) recipe: &'a Recipe,
    /// A temporary folder that is removed when the build ends.
    pub(crate) work: &'a Path,
    /// The folder in which downloads are kept.
    pub(crate) packages: &'a Path,
    pub(crate) locks: LockUse,
    pub(crate) report: &'a mut dyn FnMut(BuildProgress),
}

/// The parts of an image that were written.
struct WrittenParts {
    kernel: ImageFile,
    initrd: ImageFile,
    root: ImageFile,
    nfs: Option<ImageFile>,
    infiniband: Option<ImageFile>,
    ours: Vec<OurFile>,
}

/// The file trees of an image.
struct Trees {
    initramfs: TreeContents,
    root: TreeContents,
    /// NFS's kernel modules, if the kernel has them.
    nfs: Option<TreeContents>,
    /// Drivers of InfiniBand cards, if the kernel has them.
    infiniband: Option<TreeContents>,
}

/// Writes a part with kernel modules, if the kernel has them.
fn write_modules(
    dir: &Path,
    archive: &ModuleArchive,
    modules: Option<TreeContents>,
) -> Result<Option<ImageFile>, ImageError> {
    let write = |tree: TreeContents| {
        let bytes = module_archive::bytes(archive, &tree)?;
        write(&dir.join(archive.file), &bytes)
    };
    modules.map(write).transpose()
}

impl ImageBuilder<'_> {
    pub(crate) fn run(mut self) -> Result<Lock, ImageError> {
        let archive = self.unpack()?;
        self.step(3, "checking every file against its package".to_owned());
        let chroot = Chroot::open(&archive)?;
        let packages = Packages::read(&chroot).map_err(|error| self.forget_damaged(error))?;
        let kernel = UnpackedKernel::find(&chroot)?;
        let modules = kernel.load_order(&chroot, &self.recipe.spec().kernel.modules)?;
        let layout = RecipeLayout {
            recipe: self.recipe,
            work: self.work,
        };
        let initramfs = layout.initramfs(&chroot, &modules)?;
        let root = layout.root(&chroot)?;
        let nfs = module_archive::modules(&NFS_MODULES, &kernel, &chroot)?;
        let infiniband = module_archive::modules(&INFINIBAND_MODULES, &kernel, &chroot)?;
        let mut used = Used::default();
        let mut verified = packages.verify(&initramfs, &mut used)?;
        verified += packages.verify(&root, &mut used)?;
        for modules in nfs.iter().chain(&infiniband) {
            verified += packages.verify(modules, &mut used)?;
        }
        packages.verify_file(&kernel.path, &chroot.data(&kernel.path)?, &mut used)?;
        verified += 1;
        let sources: Vec<&str> = self.recipe.source_packages().collect();
        let sources = packages::source_files(&chroot, &sources)?;
        self.step(4, "writing the initramfs and root file system".to_owned());
        let trees = Trees {
            initramfs,
            root,
            nfs,
            infiniband,
        };
        let parts = self.write_parts(chroot, &kernel, trees, &archive)?;
        let kernel_sha256 = parts.kernel.sha256.clone();
        let modules = modules.iter().map(|path| module_file(path).to_owned());
        self.write_manifest(parts, &kernel, modules.collect(), verified)?;
        let (image, builder) = packages.split(&used);
        Ok(Lock {
            kernel_release: kernel.release,
            kernel_sha256,
            image,
            builder,
            source: sources,
        })
    }

    /// Writes the kernel, the initramfs and the root file system.
    fn write_parts(
        &mut self,
        chroot: Chroot,
        kernel: &UnpackedKernel,
        trees: Trees,
        archive: &Path,
    ) -> Result<WrittenParts, ImageError> {
        let Trees {
            initramfs,
            root,
            nfs,
            infiniband,
        } = trees;
        let dir = self.work.join("image");
        make_folder(&dir)?;
        let kernel = write(&dir.join(KERNEL), &chroot.read(&kernel.path)?)?;
        let initrd = write(&dir.join(INITRD), &initrd::archive(&initramfs)?)?;
        let nfs = write_modules(&dir, &NFS_MODULES, nfs)?;
        let infiniband = write_modules(&dir, &INFINIBAND_MODULES, infiniband)?;
        let mut ours = ours(&initramfs, "initramfs")?;
        ours.extend(self::ours(&root, "root")?);
        let stage = rootfs::stage(&root, self.work)?;
        // The layout is complete: free the archive's disk space before the file system takes as much.
        drop((root, initramfs, chroot));
        let _ = fs::remove_file(archive);
        Ok(WrittenParts {
            kernel,
            initrd,
            root: self.write_root(&stage, &dir.join(ROOT))?,
            nfs,
            infiniband,
            ours,
        })
    }

    fn write_manifest(
        &self,
        parts: WrittenParts,
        kernel: &UnpackedKernel,
        modules: Vec<String>,
        verified_files: u64,
    ) -> Result<(), ImageError> {
        let manifest = Manifest {
            recipe: self.recipe.name().to_owned(),
            key: self.recipe.key(),
            kernel_release: kernel.release.clone(),
            modules,
            verified_files,
            container: None,
            environment: self.recipe.spec().environment.clone(),
            kernel: parts.kernel,
            initrd: parts.initrd,
            root: parts.root,
            nfs: parts.nfs,
            infiniband: parts.infiniband,
            ours: parts.ours,
        };
        let path = self.work.join("image").join(MANIFEST);
        write(&path, manifest.seal().as_bytes())?;
        Ok(())
    }

    /// Fetches the packages and builds the archive of the chroot.
    fn unpack(&mut self) -> Result<PathBuf, ImageError> {
        let suite = &self.recipe.spec().suite;
        self.step(1, format!("fetching Debian {suite} packages"));
        let wanted = bootstrap::packages(self.recipe);
        let apt = Apt::new(self.recipe, self.work, self.packages, self.report)?;
        // Before anything is fetched.
        locks::hold_names(self.recipe, &apt.names(&wanted)?, self.locks)?;
        let fetched = apt.fetch(&wanted, self.report)?;
        drop(apt);
        self.step(2, "unpacking them and compiling our programs".to_owned());
        Ok(bootstrap::run(
            self.recipe,
            &fetched,
            self.work,
            self.report,
        )?)
    }

    /// Removes a package with a wrong digest from the folder of downloads.
    fn forget_damaged(&self, error: PackageError) -> PackageError {
        if let PackageError::Download { package, .. } = &error {
            fetch::forget(self.packages, package);
        }
        error
    }

    fn step(&mut self, number: u32, what: String) {
        (self.report)(BuildProgress::Step {
            number,
            of: STEPS,
            what,
        });
    }

    fn write_root(&mut self, stage: &Path, image: &Path) -> Result<ImageFile, ImageError> {
        rootfs::write(stage, image, self.report)?;
        let failed = |source| ImageError::Write {
            path: image.to_owned(),
            source,
        };
        let size = fs::metadata(image).map_err(failed)?.len();
        let path = image.to_owned();
        let sha256 = Data::Path { path, size }.sha256().map_err(failed)?;
        Ok(ImageFile { size, sha256 })
    }
}

fn ours(contents: &TreeContents, tree: &str) -> Result<Vec<OurFile>, ImageError> {
    let mut files = Vec::new();
    for (path, item) in contents.items() {
        let Item::File {
            data,
            origin: Origin::Ours,
            ..
        } = item
        else {
            continue;
        };
        let sha256 = data.sha256().map_err(|source| ContentsError::Read {
            path: path.to_owned(),
            source,
        })?;
        files.push(OurFile {
            tree: tree.to_owned(),
            path: path.to_owned(),
            sha256,
        });
    }
    Ok(files)
}

fn part(bytes: &[u8]) -> ImageFile {
    ImageFile {
        size: bytes.len() as u64,
        sha256: digest::sha256(bytes),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<ImageFile, ImageError> {
    fs::write(path, bytes).map_err(|source| ImageError::Write {
        path: path.to_owned(),
        source,
    })?;
    Ok(part(bytes))
}

fn make_folder(path: &Path) -> Result<(), ImageError> {
    fs::create_dir(path).map_err(|source| ImageError::Write {
        path: path.to_owned(),
        source,
    })
}
