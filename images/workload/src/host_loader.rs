//! Shared libraries on this host, as its dynamic loader finds them.
//!
//! The search order is glibc's (`ld.so(8)`): RPATH if there is no RUNPATH, LD_LIBRARY_PATH,
//! RUNPATH, `/etc/ld.so.cache`, and the default folders. Files that are not libraries for
//! x86-64 are skipped, as the loader does.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::Binary;
use crate::library::{LibraryLocation, Object};

/// The loader's default folders.
const FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// The first bytes of a cache in the format of glibc 2.32 and later.
const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Lengths of the cache's header and of an entry, in bytes.
const HEAD: usize = 48;
const ENTRY: usize = 24;
/// Maximum length of a program or library, in bytes.
const LARGEST: u64 = 4 << 30;

/// The dynamic loader of this host.
#[derive(Clone, Debug, Default)]
pub struct HostLoader {
    /// LD_LIBRARY_PATH.
    library_path: Vec<PathBuf>,
    /// Paths of the cache, by name.
    cache: BTreeMap<String, Vec<PathBuf>>,
}

impl HostLoader {
    /// Reads the environment and the cache of this host.
    pub fn of_host() -> Self {
        let variable = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = env::split_paths(&variable);
        let cache = fs::read("/etc/ld.so.cache").unwrap_or_default();
        Self {
            library_path: folders.filter(|folder| folder.is_absolute()).collect(),
            cache: read_cache(&cache),
        }
    }

    /// Returns a library in the folders of the program or of LD_LIBRARY_PATH, which are not part of the
    /// distribution.
    pub fn own(&self, object: &Object, name: &str) -> Option<(PathBuf, Object)> {
        let mut folders = object.folders_before();
        folders.extend(self.library_path.iter().cloned());
        folders.extend(object.folders_after());
        let mut paths = folders.iter().map(|folder| folder.join(name));
        paths.find_map(|path| open(&path, name))
    }

    /// Returns a library that all programs find.
    pub fn system(&self, name: &str) -> Option<(PathBuf, Object)> {
        let known = self.cache.get(name).into_iter().flatten().cloned();
        let folders = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
        known.chain(folders).find_map(|path| open(&path, name))
    }

    /// Returns the library that a program on this host loads.
    pub fn find(&self, object: &Object, name: &str) -> Option<LibraryLocation> {
        let found = self.own(object, name).or_else(|| self.system(name));
        found.map(|(path, object)| LibraryLocation::Open(path, object))
    }
}

/// Reads the library at `path`, if it is for this processor.
fn open(path: &Path, name: &str) -> Option<(PathBuf, Object)> {
    let binary = read_binary(path)?;
    let fits = binary.is_for_nodes() && binary.is_loadable;
    let folder = path.parent().unwrap_or(Path::new("/"));
    fits.then(|| (path.to_owned(), Object::new(name, folder, binary)))
}

/// Reads the ELF file at `path`. `None` for other files and unreadable files.
pub fn read_binary(path: &Path) -> Option<Binary> {
    let mut file = fs::File::open(path).ok()?;
    let data = file.metadata().ok()?;
    if !data.is_file() || data.len() > LARGEST {
        return None;
    }
    let mut magic = [0; 4];
    file.read_exact(&mut magic).ok()?;
    if &magic != b"\x7fELF" {
        return None;
    }
    Binary::read(&object::read::ReadCache::new(file))
}

/// Returns the names and paths in `/etc/ld.so.cache` for plain x86-64. Variants for certain
/// processors are left out, since nodes have others. An invalid cache counts as empty.
fn read_cache(bytes: &[u8]) -> BTreeMap<String, Vec<PathBuf>> {
    let mut cache: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    if !bytes.starts_with(CACHE_MAGIC) {
        return cache;
    }
    let word = |at: usize| -> Option<u32> {
        let bytes = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let text = |at: u32| -> Option<String> {
        let tail = bytes.get(at as usize..)?;
        let end = tail.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(&tail[..end]).into_owned())
    };
    let count = word(CACHE_MAGIC.len()).unwrap_or(0) as usize;
    for index in 0..count.min(bytes.len() / ENTRY) {
        let at = HEAD + index * ENTRY;
        let (Some(name), Some(path)) = (word(at + 4).and_then(text), word(at + 8).and_then(text))
        else {
            break;
        };
        let is_plain = word(at + 16) == Some(0) && word(at + 20) == Some(0);
        if is_plain {
            cache.entry(name).or_default().push(PathBuf::from(path));
        }
    }
    cache
}

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_read_and_a_damaged_one_is_harmless() {
        let mut bytes = CACHE_MAGIC.to_vec();
        bytes.extend(2_u32.to_le_bytes());
        bytes.resize(HEAD, 0);
        let strings = HEAD + 2 * ENTRY;
        let texts = b"libz.so.1\0/lib/libz.so.1\0/v3/libz.so.1\0";
        for (path, hwcap) in [(strings + 10, 0_u64), (strings + 25, 1 << 62)] {
            bytes.extend(3_u32.to_le_bytes());
            bytes.extend((strings as u32).to_le_bytes());
            bytes.extend((path as u32).to_le_bytes());
            bytes.extend(0_u32.to_le_bytes());
            bytes.extend(hwcap.to_le_bytes());
        }
        bytes.extend(texts);
        let cache = read_cache(&bytes);
        assert_eq!(cache["libz.so.1"], [PathBuf::from("/lib/libz.so.1")]);
        for length in 0..bytes.len() {
            read_cache(&bytes[..length]);
        }
        for at in CACHE_MAGIC.len()..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            read_cache(&damaged);
        }
    }

    #[test]
    fn this_hosts_libc_is_found() {
        let host = HostLoader::of_host();
        if host.cache.is_empty() {
            eprintln!("SKIPPED: this host has no /etc/ld.so.cache of glibc");
            return;
        }
        let (path, found) = host.system("libc.so.6").expect("a libc");
        assert!(path.is_absolute());
        assert!(found.binary.has_versions.contains("GLIBC_2.2.5"));
        assert!(host.system("libnothing.so.99").is_none());
    }
}
