//! Shared libraries of a program, and their sources.
//!
//! [`Closure::of`](library::Closure::of) visits a program and its libraries as the dynamic loader does. The source of a library
//! is [`HostLoader`] on this host, [`GuestRoot`] in an image, or both in turn ([`bring`](library::bring)) for a
//! program of this host that runs on nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::binary::newest_glibc;
use crate::{Binary, GuestRoot, HostLoader, Mpi};

/// Maximum number of libraries of a program.
const MOST: usize = 2000;

/// A program or library, with the data that determine the search for its own libraries.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its name, for messages.
    pub label: String,
    /// Its folder: the value of `$ORIGIN`.
    pub folder: PathBuf,
    /// Its requirements.
    pub binary: Binary,
    /// RPATH folders of its loaders that have no RUNPATH.
    inherited: Vec<PathBuf>,
}

impl Object {
    /// Creates the program or library `label` in `folder`.
    pub fn new(label: &str, folder: &Path, binary: Binary) -> Self {
        Self {
            label: label.to_owned(),
            folder: folder.to_owned(),
            binary,
            inherited: Vec::new(),
        }
    }

    /// Returns the folders searched before LD_LIBRARY_PATH: RPATH, which only counts without RUNPATH.
    pub fn folders_before(&self) -> Vec<PathBuf> {
        match self.binary.runpath.is_empty() {
            true => self.handed_on(),
            false => Vec::new(),
        }
    }

    /// Returns the RPATH folders for libraries that it loads: a RUNPATH replaces its own folders, but not those of its loaders.
    fn handed_on(&self) -> Vec<PathBuf> {
        let own = self.binary.rpath.iter();
        let own = own.filter(|_| self.binary.runpath.is_empty());
        let own = own.map(|name| self.expand(name));
        own.chain(self.inherited.iter().cloned()).collect()
    }

    /// Returns the folders searched after LD_LIBRARY_PATH: RUNPATH.
    pub fn folders_after(&self) -> Vec<PathBuf> {
        let own = self.binary.runpath.iter();
        own.map(|name| self.expand(name)).collect()
    }

    fn expand(&self, folder: &str) -> PathBuf {
        let origin = self.folder.to_string_lossy();
        let mut path = folder.to_owned();
        for (word, value) in [
            ("ORIGIN", &*origin),
            ("LIB", "lib/x86_64-linux-gnu"),
            ("PLATFORM", "x86_64"),
        ] {
            path = path.replace(&format!("${{{word}}}"), value);
            path = path.replace(&format!("${word}"), value);
        }
        PathBuf::from(path)
    }
}

/// The result of a search for a library.
#[derive(Clone, Debug)]
pub enum LibraryLocation {
    /// In a place that has all of its own libraries, too.
    Settled(Binary),
    /// At this path; its own libraries must be searched.
    Open(PathBuf, Object),
}

/// A library that is too old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The program or library that needs it.
    pub by: String,
    /// The library.
    pub library: String,
    /// The required version.
    pub version: String,
    /// The newest available version of glibc, if the library belongs to glibc.
    pub newest: Option<Vec<u32>>,
}

/// All libraries of a program.
#[derive(Clone, Debug, Default)]
pub struct Closure {
    /// Libraries in a place with all of their own libraries.
    pub settled: BTreeSet<String>,
    /// Libraries found elsewhere, with their paths.
    pub open: BTreeMap<String, PathBuf>,
    /// Missing libraries, with the program or library that needs each.
    pub missing: BTreeMap<String, String>,
    /// Libraries that are too old.
    pub lacking: Vec<Lacking>,
    /// Libraries of MPI implementations.
    pub mpi: BTreeMap<Mpi, String>,
}

impl Closure {
    /// Returns the libraries of `program`, each as `find` finds it for the program or library that needs it.
    pub fn of(
        program: Object,
        find: &mut dyn FnMut(&Object, &str) -> Option<LibraryLocation>,
    ) -> Self {
        let mut closure = Self::default();
        let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut objects = vec![program];
        let mut at = 0;
        while at < objects.len() {
            let object = objects[at].clone();
            at += 1;
            for name in &object.binary.needed {
                if seen.len() >= MOST || !seen.insert(name.clone()) {
                    continue;
                }
                if let Some(mpi) = Mpi::of_library(name) {
                    closure.mpi.entry(mpi).or_insert_with(|| name.clone());
                }
                match find(&object, name) {
                    None => {
                        closure.missing.insert(name.clone(), object.label.clone());
                    }
                    Some(LibraryLocation::Settled(binary)) => {
                        closure.settled.insert(name.clone());
                        versions.insert(name.clone(), binary.has_versions);
                    }
                    Some(LibraryLocation::Open(path, mut found)) => {
                        found.inherited = object.handed_on();
                        versions.insert(name.clone(), found.binary.has_versions.clone());
                        closure.open.insert(name.clone(), path);
                        objects.push(found);
                    }
                }
            }
        }
        closure.lacking = lacking(&objects, &versions);
        closure
    }
}

/// Returns the required versions that the found libraries lack. The loader accepts a library without versions.
fn lacking(objects: &[Object], versions: &BTreeMap<String, BTreeSet<String>>) -> Vec<Lacking> {
    let mut all = Vec::new();
    for object in objects {
        for (library, needs) in &object.binary.needs_versions {
            let Some(has) = versions.get(library).filter(|has| !has.is_empty()) else {
                continue;
            };
            let absent: Vec<&String> = needs.difference(has).collect();
            // The newest version implies the others.
            let newest = absent.iter().max_by_key(|name| version_key(name));
            if let Some(version) = newest {
                all.push(Lacking {
                    by: object.label.clone(),
                    library: library.clone(),
                    version: (**version).clone(),
                    newest: newest_glibc(has),
                });
            }
        }
    }
    all
}

/// Returns the numbers in a version's name, which define its order.
fn version_key(name: &str) -> Vec<u64> {
    let parts = name.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// True if a library belongs to glibc, whose parts must be of one build.
pub fn is_of_glibc(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "ld-linux-x86-64.so.2",
        "libanl.so.1",
        "libc.so.6",
        "libdl.so.2",
        "libm.so.6",
        "libmvec.so.1",
        "libpthread.so.0",
        "libresolv.so.2",
        "librt.so.1",
        "libutil.so.1",
    ];
    NAMES.contains(&name) || name.starts_with("libnss_")
}

/// Libraries that are empty since glibc 2.34, as `libc.so.6` has their functions. Programs linked to an
/// older glibc need them by name.
pub const FORMER_PARTS: [&str; 5] = [
    "libanl.so.1",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
];

/// True if the run adds `name` as an empty library: the image lacks the file, and its `libc.so.6` has the functions.
pub fn is_former_part(root: &GuestRoot, name: &str) -> bool {
    let libc = || {
        root.library("libc.so.6")
            .and_then(|path| root.binary(&path))
    };
    let is_new = |libc: Binary| libc.has_versions.contains("GLIBC_2.34");
    FORMER_PARTS.contains(&name) && root.library(name).is_none() && libc().is_some_and(is_new)
}

/// Returns such a library.
fn former_part(root: &GuestRoot, name: &str) -> Option<LibraryLocation> {
    is_former_part(root, name).then(|| LibraryLocation::Settled(Binary::default()))
}

/// Returns the libraries of a program of this host that runs on `root`. MPI and glibc are the image's, and so are all
/// libraries of the image, except those in the program's own folders and those that it needs in a newer
/// version.
pub fn bring(root: &GuestRoot, host: &HostLoader, program: Object) -> Closure {
    Closure::of(program, &mut |object, name| {
        if name.contains('/') {
            let real = root.real(name).filter(|_| name.starts_with('/'))?;
            return root.binary(&real).map(LibraryLocation::Settled);
        }
        let of_image = root.library(name).and_then(|path| root.binary(&path));
        if Mpi::of_library(name).is_some() || is_of_glibc(name) {
            return of_image
                .map(LibraryLocation::Settled)
                .or_else(|| former_part(root, name));
        }
        if let Some((path, found)) = host.own(object, name) {
            return Some(LibraryLocation::Open(path, found));
        }
        if let Some(binary) = of_image {
            let needs = object.binary.needs_versions.get(name);
            if needs.is_none_or(|needs| needs.is_subset(&binary.has_versions)) {
                return Some(LibraryLocation::Settled(binary));
            }
        }
        let (path, found) = host.system(name)?;
        Some(LibraryLocation::Open(path, found))
    })
}

/// Returns the libraries of a program of the run, as the guest's loader finds them. `library_path` is
/// LD_LIBRARY_PATH; relative folders start at `/root`.
pub fn in_guest(root: &GuestRoot, library_path: &[String], program: Object) -> Closure {
    let searched: Vec<PathBuf> = library_path.iter().map(PathBuf::from).collect();
    Closure::of(program, &mut |object, name| {
        let mut folders = object.folders_before();
        folders.extend(searched.iter().cloned());
        folders.extend(object.folders_after());
        let own = folders.iter().find_map(|folder| {
            let path = Path::new("/root").join(folder).join(name);
            let real = root.real(path.to_str()?)?;
            let binary = root.binary(&real).filter(Binary::is_for_nodes)?;
            Some((real, binary))
        });
        let by_path = || root.real(name).filter(|_| name.contains('/'));
        let known = || root.library(name).or_else(by_path);
        match own {
            // The image has a library together with its own libraries.
            Some((real, binary)) if real.starts_with("/root/") => {
                let folder = Path::new(&real).parent().unwrap_or(Path::new("/"));
                let found = Object::new(name, folder, binary);
                Some(LibraryLocation::Open(PathBuf::from(real), found))
            }
            Some((_, binary)) => Some(LibraryLocation::Settled(binary)),
            None => known()
                .and_then(|path| root.binary(&path))
                .map(LibraryLocation::Settled)
                .or_else(|| former_part(root, name)),
        }
    })
}

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests;
