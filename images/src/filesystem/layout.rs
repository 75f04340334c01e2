//! Layout of the image's two file trees: files taken from packages, compiled programs and included files,
//! with the libraries that they need. The only file written here is a copy of busybox, which is asked for
//! its applets. Called once the packages are unpacked.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::build::error::ImageError;
use crate::command;
use crate::debian::bootstrap::{OUTPUT, output_folder};
use crate::debian::chroot::{self, Chroot, ChrootError};
use crate::debian::packages;
use crate::filesystem::contents::{ContentsError, Item, TreeContents};
use crate::filesystem::data::Data;
use crate::filesystem::libraries::Libraries;
use crate::recipe::tree;
use crate::recipe::{Destination, Recipe};

/// The folder of the initramfs from which init loads the modules, in order.
const MODULE_FOLDER: &str = "/modules";

/// A recipe's two file trees.
pub(crate) struct RecipeLayout<'a> {
    pub(crate) recipe: &'a Recipe,
    /// A temporary folder that is removed when the build ends.
    pub(crate) work: &'a Path,
}

impl RecipeLayout<'_> {
    /// The initramfs, with these modules in load order.
    pub(crate) fn initramfs(
        &self,
        chroot: &Chroot,
        modules: &[String],
    ) -> Result<TreeContents, ImageError> {
        let spec = self.recipe.spec();
        let mut contents = TreeContents::default();
        for pattern in &spec.initramfs.files {
            take_matching(&mut contents, chroot, pattern)?;
        }
        self.close(&mut contents, chroot, &BTreeMap::new())?;
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
            Item::ours(Data::Bytes(order.into_bytes()), false),
        )?;
        self.programs(&mut contents, chroot, Destination::Initramfs)?;
        self.include(&mut contents, chroot, Destination::Initramfs)?;
        self.close(&mut contents, chroot, &BTreeMap::new())?;
        Ok(contents)
    }

    /// The root file system.
    pub(crate) fn root(&self, chroot: &Chroot) -> Result<TreeContents, ImageError> {
        let spec = self.recipe.spec();
        let mut contents = TreeContents::default();
        for pattern in &spec.userland.files {
            take_matching(&mut contents, chroot, pattern)?;
        }
        for pattern in &spec.userland.optional {
            match take_matching(&mut contents, chroot, pattern) {
                Err(ImageError::Chroot(ChrootError::Missing { .. })) => {}
                Err(ImageError::Contents(ContentsError::Chroot(ChrootError::Missing {
                    ..
                }))) => {}
                taken => taken?,
            }
        }
        for package in &spec.userland.whole {
            for path in packages::files(chroot, package)? {
                contents.take_any(chroot, &path)?;
            }
        }
        self.programs(&mut contents, chroot, Destination::Root)?;
        self.built(&mut contents, chroot)?;
        self.close(&mut contents, chroot, &spec.userland.links)?;
        add_folders(&mut contents, &spec.userland.directories)?;
        self.include(&mut contents, chroot, Destination::Root)?;
        self.close(&mut contents, chroot, &spec.userland.links)?;
        for (path, target) in &spec.userland.links {
            contents.insert(path, Item::Link(target.clone()))?;
        }
        if let Some(busybox) = &spec.userland.busybox {
            self.applets(&mut contents, chroot, busybox)?;
        }
        Ok(contents)
    }

    /// Adds the libraries that the tree's files need.
    fn close(
        &self,
        contents: &mut TreeContents,
        chroot: &Chroot,
        links: &BTreeMap<String, String>,
    ) -> Result<(), ImageError> {
        let userland = &self.recipe.spec().userland;
        let libraries = Libraries {
            chroot,
            links,
            paths: &userland.lib_paths,
            optional: &userland.optional_libraries,
        };
        Ok(libraries.close(contents)?)
    }

    /// Adds the programs that were compiled for one of the trees.
    fn programs(
        &self,
        contents: &mut TreeContents,
        chroot: &Chroot,
        into: Destination,
    ) -> Result<(), ImageError> {
        let programs = self.recipe.spec().program.iter();
        for program in programs.filter(|program| program.into == into) {
            take_output(contents, chroot, &program.path)?;
        }
        Ok(())
    }

    /// Adds files that were built from sources.
    fn built(&self, contents: &mut TreeContents, chroot: &Chroot) -> Result<(), ImageError> {
        let spec = self.recipe.spec();
        let packages = spec.source.iter().filter(|source| source.path.is_none());
        for path in packages.flat_map(|source| &source.outputs) {
            take_output(contents, chroot, path)?;
        }
        for (number, source) in spec.source.iter().enumerate() {
            if source.path.is_some() {
                let folder = output_folder(number);
                installed(contents, chroot, &folder, &source.outputs)?;
            }
        }
        Ok(())
    }

    fn include(
        &self,
        contents: &mut TreeContents,
        chroot: &Chroot,
        into: Destination,
    ) -> Result<(), ImageError> {
        let includes = self.recipe.spec().include.iter();
        for include in includes.filter(|include| include.into == into) {
            let Some(tree) = self.recipe.tree(include.layer, &include.source) else {
                let bytes = self.recipe.file(include.layer, &include.source).to_vec();
                let item = Item::ours(Data::Bytes(bytes), include.executable);
                contents.insert(&include.path, item)?;
                continue;
            };
            for entry in tree.entries() {
                let path = format!("{}/{}", include.path, entry.path);
                let item = match &entry.kind {
                    tree::TreeEntryKind::Folder => Item::Directory,
                    tree::TreeEntryKind::Link(target) => Item::Link(target.clone()),
                    tree::TreeEntryKind::File { size, executable } => {
                        let (path, size) = (tree.host_path(entry), *size);
                        let data = Data::Path { path, size };
                        Item::ours(data, *executable || include.executable)
                    }
                };
                contents.follow(chroot, &path)?;
                contents.insert(&path, item)?;
            }
        }
        Ok(())
    }

    /// Links to busybox for each of its applets, as busybox itself lists them.
    fn applets(
        &self,
        contents: &mut TreeContents,
        chroot: &Chroot,
        busybox: &str,
    ) -> Result<(), ImageError> {
        let real = contents.take(chroot, busybox)?;
        self.close(contents, chroot, &self.recipe.spec().userland.links)?;
        let copy = self.work.join("busybox");
        let data = chroot.read(&real)?;
        write_program(&copy, &data).map_err(|source| ImageError::Write {
            path: copy.clone(),
            source,
        })?;
        let list = command::output(command::new(&copy.to_string_lossy()).arg("--list-full"))?;
        for applet in list.lines() {
            let path = format!("/{applet}");
            if !contents.holds(&path) {
                contents.insert(&path, Item::Link(real.clone()))?;
            }
        }
        Ok(())
    }
}

/// Takes the file that was compiled or built for this path.
fn take_output(contents: &mut TreeContents, chroot: &Chroot, path: &str) -> Result<(), ImageError> {
    let data = chroot.data(&format!("{OUTPUT}{path}"))?;
    contents.insert(path, Item::ours(data, true))?;
    Ok(())
}

/// Takes all paths that a pattern names.
fn take_matching(
    contents: &mut TreeContents,
    chroot: &Chroot,
    pattern: &str,
) -> Result<(), ImageError> {
    let found = chroot.matching(pattern)?;
    if let [one] = &found[..]
        && one == pattern
    {
        contents.take(chroot, one)?;
        return Ok(());
    }
    for path in found {
        contents.take_any(chroot, &path)?;
    }
    Ok(())
}

/// Takes the files that a source installed into `folder`: all, or the ones in `outputs`.
fn installed(
    contents: &mut TreeContents,
    chroot: &Chroot,
    folder: &str,
    outputs: &[String],
) -> Result<(), ImageError> {
    let found = if outputs.is_empty() {
        let below = format!("{folder}/");
        chroot.under(&below).map(str::to_owned).collect()
    } else {
        let mut found = Vec::new();
        for output in outputs {
            found.extend(chroot.matching(&format!("{folder}{output}"))?);
        }
        found
    };
    if found.is_empty() {
        return Err(ImageError::Chroot(ChrootError::Missing {
            path: format!("a file below $OUT ({folder})"),
        }));
    }
    for path in found {
        let item = match chroot.kind(&path) {
            Some(chroot::ChrootEntryKind::Directory) => Item::Directory,
            Some(chroot::ChrootEntryKind::Link(target)) => Item::Link(target.to_owned()),
            _ => Item::ours(chroot.data(&path)?, chroot.is_executable(&path)),
        };
        let path = &path[folder.len()..];
        contents.follow(chroot, path)?;
        contents.insert(path, item)?;
    }
    Ok(())
}

fn add_folders(contents: &mut TreeContents, folders: &[String]) -> Result<(), ImageError> {
    for folder in folders {
        contents.insert(folder, Item::Directory)?;
    }
    Ok(())
}

/// The name of a module's file.
pub(crate) fn module_file(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn write_program(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
