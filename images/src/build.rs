//! The road from a recipe to an image in the cache.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bootstrap::{self, BootstrapError, OUTPUT};
use crate::cache::{Cache, CacheError};
use crate::chroot::{Chroot, ChrootError};
use crate::command::{self, CommandError};
use crate::contents::{Contents, ContentsError, Item, Origin};
use crate::digest;
use crate::initrd::{self, InitrdError};
use crate::kernel::{Kernel, KernelError};
use crate::lockfile::{Lock, LockError};
use crate::manifest::{INITRD, Image, KERNEL, MANIFEST, Manifest, OurFile, Part, ROOT};
use crate::packages::{self, PackageError, Packages, Used};
use crate::progress::Progress;
use crate::recipe::{Recipe, Tree};
use crate::rootfs::{self, RootError};
use crate::verified::Trust;

/// Steps of a build, for its progress.
const STEPS: u32 = 4;

/// Where the guest's init finds the modules in the initramfs, in the order to load them.
const MODULE_FOLDER: &str = "/modules";

/// Why an image could not be built or found.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Tools are missing.
    #[error("building an image needs {0}; install the packages named and try again")]
    Tools(String),
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Fetching and unpacking packages, compiling programs.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// Reading the unpacked packages.
    #[error(transparent)]
    Chroot(#[from] ChrootError),
    /// Putting the file trees together.
    #[error(transparent)]
    Contents(#[from] ContentsError),
    /// The kernel and its modules.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The check against the packages' checksums.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The initramfs.
    #[error(transparent)]
    Initrd(#[from] InitrdError),
    /// The root file system.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The lock file.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Asking a guest program about itself.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A part of the image can't be written.
    #[error("cannot write {path}: {source}; make room or rights for it and build again")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The image of `recipe` in the user's cache, if it has been built.
///
/// # Errors
/// When the cache can't be read or the image in it is damaged.
pub fn locate(recipe: &Recipe) -> Result<Option<Image>, ImageError> {
    Ok(Cache::of_user()?.find(&recipe.key())?)
}

/// The image of `recipe` in the user's cache, if it has been built, after all of it was read from the
/// disk and compared with its digests.
///
/// # Errors
/// As for [`locate`].
pub fn verify(recipe: &Recipe) -> Result<Option<Image>, ImageError> {
    Ok(Cache::of_user()?.find_as(&recipe.key(), Trust::Nothing)?)
}

/// Builds the image of `recipe` in the user's cache, or gives the one that is there. One that is
/// damaged is built again.
///
/// # Errors
/// When a tool is missing or fails, a package or file is not to be had, or a file that should be
/// the distribution's differs from it.
pub fn build(recipe: &Recipe, report: &mut dyn FnMut(Progress)) -> Result<Image, ImageError> {
    build_in(&Cache::of_user()?, recipe, report)
}

/// As [`build`], in a cache of one's own.
///
/// # Errors
/// As for [`build`].
pub fn build_in(
    cache: &Cache,
    recipe: &Recipe,
    report: &mut dyn FnMut(Progress),
) -> Result<Image, ImageError> {
    let key = recipe.key();
    if let Some(image) = cache.find_whole(&key, &mut |_| {})? {
        return Ok(image);
    }
    let missing = command::missing_tools();
    if !missing.is_empty() {
        let list = missing
            .iter()
            .map(|tool| format!("{} (package {})", tool.command, tool.package));
        return Err(ImageError::Tools(list.collect::<Vec<_>>().join(", ")));
    }
    let _lock = cache.lock(&key, &mut || report(Progress::Waiting))?;
    let mut damaged = |why| report(Progress::Note(format!("{why}; it is built again")));
    if let Some(image) = cache.find_whole(&key, &mut damaged)? {
        return Ok(image);
    }
    let work = cache.work_folder()?;
    let lock = Builder {
        recipe,
        work: work.path(),
        report,
    }
    .run()?;
    // An image that is there is not built again: whatever can fail comes before.
    note_lock(recipe, &lock, report)?;
    Ok(cache.publish(&work.path().join("image"), &key)?)
}

fn note_lock(
    recipe: &Recipe,
    lock: &Lock,
    report: &mut dyn FnMut(Progress),
) -> Result<(), ImageError> {
    let path = recipe.lock_path();
    if let Some(old) = Lock::read(&path)? {
        for change in lock.changes_since(&old) {
            report(Progress::Note(change));
        }
    }
    Ok(lock.write(&path)?)
}

/// One build under way.
struct Builder<'a> {
    recipe: &'a Recipe,
    work: &'a Path,
    report: &'a mut dyn FnMut(Progress),
}

impl Builder<'_> {
    fn run(mut self) -> Result<Lock, ImageError> {
        let suite = &self.recipe.spec().suite;
        self.step(
            1,
            format!("fetching Debian {suite} packages and compiling our programs"),
        );
        let archive = bootstrap::run(self.recipe, self.work, self.report)?;
        self.step(2, "checking every file against its package".to_owned());
        let chroot = Chroot::open(&archive)?;
        let packages = Packages::read(&chroot)?;
        let kernel = Kernel::find(&chroot)?;
        let modules = kernel.load_order(&chroot, &self.recipe.spec().kernel.modules)?;
        let initramfs = self.initramfs(&chroot, &modules)?;
        let root = self.root(&chroot)?;
        let mut used = Used::default();
        let mut verified = packages.verify(&initramfs, &mut used)?;
        verified += packages.verify(&root, &mut used)?;
        let vmlinuz = chroot.read(&kernel.path)?;
        packages.verify_file(&kernel.path, &vmlinuz, &mut used)?;
        verified += 1;
        self.step(
            3,
            "writing the initramfs and the root file system".to_owned(),
        );
        let dir = self.work.join("image");
        make_folder(&dir)?;
        let kernel_part = write(&dir.join(KERNEL), &vmlinuz)?;
        let initrd_part = write(&dir.join(INITRD), &initrd::archive(&initramfs)?)?;
        let root_part = self.write_root(&root, &dir.join(ROOT))?;
        self.step(4, "writing the manifest and the lock file".to_owned());
        let manifest = Manifest {
            recipe: self.recipe.name().to_owned(),
            key: self.recipe.key(),
            kernel_release: kernel.release.clone(),
            modules: modules
                .iter()
                .map(|path| module_file(path).to_owned())
                .collect(),
            verified_files: verified,
            kernel: kernel_part.clone(),
            initrd: initrd_part,
            root: root_part,
            ours: ours(&initramfs, "initramfs")
                .chain(ours(&root, "root"))
                .collect(),
        };
        write(&dir.join(MANIFEST), manifest.seal().as_bytes())?;
        let (image, builder) = packages.split(&used);
        let sources: Vec<&str> = self
            .recipe
            .spec()
            .source
            .iter()
            .map(|source| source.package.as_str())
            .collect();
        Ok(Lock {
            kernel_release: kernel.release,
            kernel_sha256: kernel_part.sha256,
            image,
            builder,
            source: packages::source_files(&chroot, &sources)?,
        })
    }

    fn step(&mut self, number: u32, what: String) {
        (self.report)(Progress::Step {
            number,
            of: STEPS,
            what,
        });
    }

    fn initramfs(&self, chroot: &Chroot, modules: &[String]) -> Result<Contents, ImageError> {
        let spec = self.recipe.spec();
        let mut contents = Contents::default();
        for pattern in &spec.initramfs.files {
            for path in chroot.matching(pattern)? {
                contents.take(chroot, &path)?;
            }
        }
        contents.close_over_libraries(chroot, &BTreeMap::new())?;
        add_folders(&mut contents, &spec.initramfs.directories)?;
        let mut order = String::new();
        for path in modules {
            let file = format!("{MODULE_FOLDER}/{}", module_file(path));
            order.push_str(&file);
            order.push('\n');
            contents.take_as(chroot, path, &file)?;
        }
        contents.insert(
            &format!("{MODULE_FOLDER}/order"),
            ours_file(order.into_bytes(), false),
        )?;
        self.include(&mut contents, Tree::Initramfs)?;
        Ok(contents)
    }

    fn root(&self, chroot: &Chroot) -> Result<Contents, ImageError> {
        let spec = self.recipe.spec();
        let mut contents = Contents::default();
        for pattern in &spec.userland.files {
            for path in chroot.matching(pattern)? {
                contents.take(chroot, &path)?;
            }
        }
        let compiled = spec.program.iter().map(|program| &program.path);
        for path in compiled.chain(spec.source.iter().flat_map(|source| &source.outputs)) {
            contents.insert(
                path,
                ours_file(chroot.read(&format!("{OUTPUT}{path}"))?, true),
            )?;
        }
        contents.close_over_libraries(chroot, &spec.userland.links)?;
        add_folders(&mut contents, &spec.userland.directories)?;
        self.include(&mut contents, Tree::Root)?;
        for (path, target) in &spec.userland.links {
            contents.insert(path, Item::Link(target.clone()))?;
        }
        if let Some(busybox) = &spec.userland.busybox {
            self.applets(&mut contents, chroot, busybox)?;
        }
        Ok(contents)
    }

    fn include(&self, contents: &mut Contents, tree: Tree) -> Result<(), ImageError> {
        for include in self
            .recipe
            .spec()
            .include
            .iter()
            .filter(|include| include.into == tree)
        {
            let bytes = self.recipe.file(&include.source).to_vec();
            contents.insert(&include.path, ours_file(bytes, include.executable))?;
        }
        Ok(())
    }

    /// Links to busybox for each of its applets, as busybox itself lists them.
    fn applets(
        &self,
        contents: &mut Contents,
        chroot: &Chroot,
        busybox: &str,
    ) -> Result<(), ImageError> {
        let real = contents.take(chroot, busybox)?;
        contents.close_over_libraries(chroot, &self.recipe.spec().userland.links)?;
        let copy = self.work.join("busybox");
        write(&copy, &chroot.read(&real)?)?;
        make_executable(&copy)?;
        let list = command::output(command::new(&copy.to_string_lossy()).arg("--list-full"))?;
        for applet in list.lines() {
            let path = format!("/{applet}");
            if !contents.holds(&path) {
                contents.insert(&path, Item::Link(real.clone()))?;
            }
        }
        Ok(())
    }

    fn write_root(&mut self, root: &Contents, image: &Path) -> Result<Part, ImageError> {
        rootfs::write(root, self.work, image, self.report)?;
        let bytes = fs::read(image).map_err(|source| ImageError::Write {
            path: image.to_owned(),
            source,
        })?;
        Ok(part(&bytes))
    }
}

fn ours_file(bytes: Vec<u8>, executable: bool) -> Item {
    Item::File {
        bytes,
        executable,
        origin: Origin::Ours,
    }
}

fn add_folders(contents: &mut Contents, folders: &[String]) -> Result<(), ImageError> {
    for folder in folders {
        contents.insert(folder, Item::Directory)?;
    }
    Ok(())
}

fn ours<'a>(contents: &'a Contents, tree: &'a str) -> impl Iterator<Item = OurFile> + 'a {
    contents.items().filter_map(move |(path, item)| match item {
        Item::File {
            bytes,
            origin: Origin::Ours,
            ..
        } => Some(OurFile {
            tree: tree.to_owned(),
            path: path.to_owned(),
            sha256: digest::sha256(bytes),
        }),
        _ => None,
    })
}

fn module_file(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn part(bytes: &[u8]) -> Part {
    Part {
        size: bytes.len() as u64,
        sha256: digest::sha256(bytes),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<Part, ImageError> {
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

fn make_executable(path: &Path) -> Result<(), ImageError> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(|source| {
        ImageError::Write {
            path: path.to_owned(),
            source,
        }
    })
}
