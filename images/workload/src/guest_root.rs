//! An image's file tree as the guest sees it: paths through links, programs by name, shared
//! libraries by the dynamic loader's rules.
//!
//! Used to choose an image, to find missing libraries, and to check the workload's programs.

use belljar_images::{Image, RootFile, root_tree};
use object::read::ReadCache;
use std::collections::BTreeMap;
use std::io::Read;

use crate::{Binary, Mpi, ProgramError};

/// Folders of PATH in the guest, as its init sets it.
pub const PROGRAMS: [&str; 6] = [
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
];
/// Default search folders of the guest's dynamic loader.
const LIBRARIES: [&str; 7] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
];
/// The folder with files of further search folders, and the maximum length of such a file in bytes.
const CONFIGURATION: &str = "/etc/ld.so.conf";
const CONFIGURED: &str = "/etc/ld.so.conf.d";
const MOST_CONFIGURATION: u64 = 64 << 10;
/// Maximum number of links in one path, as in Linux.
const MOST_LINKS: usize = 40;
/// Maximum length of a file that is read whole, in bytes.
const LONGEST_FILE: u64 = 4 << 30;
/// Maximum length of a script whose first line is read, in bytes.
const FIRST_LINE: u64 = 256;

/// The content of a file of the tree.
#[derive(Clone, Debug)]
enum Content {
    Image(RootFile),
    Bytes(Vec<u8>),
}

/// Files and links of an image, with the files that a run adds.
#[derive(Clone, Debug, Default)]
pub struct GuestRoot {
    files: BTreeMap<String, Content>,
    links: BTreeMap<String, String>,
    /// Search folders of programs and libraries before those of all systems.
    programs: Vec<String>,
    libraries: Vec<String>,
}

impl GuestRoot {
    /// Reads the tree of the root file system of `image`.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn open(image: &Image) -> Result<Self, ProgramError> {
        let tree = root_tree(&image.root).map_err(|source| ProgramError::Root {
            path: image.root.clone(),
            reason: source.to_string(),
        })?;
        let files = tree.files.into_iter();
        let files = files.map(|file| (file.path.clone(), Content::Image(file)));
        let folders = |name: &str| {
            let value = image.manifest.environment.get(name);
            let folders = value.map_or("", String::as_str).split(':');
            folders.filter(|folder| folder.starts_with('/'))
        };
        let mut root = Self {
            files: files.collect(),
            links: tree.links,
            programs: folders("PATH").map(str::to_owned).collect(),
            libraries: folders("LD_LIBRARY_PATH").map(str::to_owned).collect(),
        };
        let configured = root.configured_libraries();
        root.libraries.extend(configured);
        Ok(root)
    }

    /// Returns the folders of libraries in the system's configuration.
    fn configured_libraries(&self) -> Vec<String> {
        let listed = self.below(CONFIGURED).map(str::to_owned);
        let files = listed.chain(std::iter::once(CONFIGURATION.to_owned()));
        let mut folders = Vec::new();
        for file in files {
            let text = self.start(&file, MOST_CONFIGURATION).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines = text.lines().map(str::trim);
            let lines = lines.filter(|line| line.starts_with('/'));
            folders.extend(lines.map(str::to_owned));
        }
        folders
    }

    /// Returns at most `most` bytes from the start of the file at the path `real`. `None` if it is not a file or cannot be read.
    pub fn start(&self, real: &str, most: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.files.get(real)? {
            Content::Image(file) => {
                file.clone().take(most).read_to_end(&mut bytes).ok()?;
            }
            Content::Bytes(all) => {
                bytes.extend_from_slice(&all[..all.len().min(most as usize)]);
            }
        }
        Some(bytes)
    }

    /// Returns the content of the file at the absolute `path`, through links.
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.start(&self.real(path)?, LONGEST_FILE)
    }

    /// True if a file or link in any folder has this name.
    pub fn holds(&self, name: &str) -> bool {
        let mut paths = self.files.keys().chain(self.links.keys());
        paths.any(|path| path.rsplit('/').next() == Some(name))
    }

    /// Adds a file of the run at `path`.
    pub fn add(&mut self, path: &str, bytes: &[u8]) {
        let content = Content::Bytes(bytes.to_vec());
        self.files.insert(path.to_owned(), content);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.links.insert(path.to_owned(), target.to_owned());
    }

    /// Resolves the links of the absolute `path`. Returns the path of the file.
    pub fn real(&self, path: &str) -> Option<String> {
        let mut real = String::new();
        let mut left: Vec<String> = parts(path);
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == ".." {
                real.truncate(real.rfind('/').unwrap_or(0));
                continue;
            }
            let here = format!("{real}/{part}");
            let Some(target) = self.links.get(&here) else {
                real = here;
                continue;
            };
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            if target.starts_with('/') {
                real.clear();
            }
            left.extend(parts(target));
        }
        self.files.contains_key(&real).then_some(real)
    }

    /// Returns the path of the program `name`, which is a path or is searched along PATH.
    pub fn program(&self, name: &str) -> Option<String> {
        if name.contains('/') {
            return self.real(name);
        }
        let own = self.programs.iter().map(String::as_str);
        let mut folders = own.chain(PROGRAMS);
        folders.find_map(|folder| self.real(&format!("{folder}/{name}")))
    }

    /// Returns the path of a library in the search folders of the dynamic loader.
    pub fn library(&self, name: &str) -> Option<String> {
        let own = self.libraries.iter().map(String::as_str);
        let mut folders = own.chain(LIBRARIES);
        folders.find_map(|folder| self.real(&format!("{folder}/{name}")))
    }

    /// Reads the ELF file at the path `real`. `None` for other files.
    pub fn binary(&self, real: &str) -> Option<Binary> {
        match self.files.get(real)? {
            Content::Image(file) => Binary::read(&ReadCache::new(file.clone())),
            Content::Bytes(bytes) => Binary::read(&bytes[..]),
        }
    }

    /// Returns the command in the first line of the script at the path `real`: an interpreter and its
    /// arguments.
    pub fn interpreter(&self, real: &str) -> Option<Vec<String>> {
        let first = self.start(real, FIRST_LINE)?;
        interpreter_line(&first)
    }

    /// Returns the paths of files in `folder` and below whose names begin with `start`.
    pub fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let start = format!("{folder}/");
        let from = self.files.range(start.clone()..);
        from.map(|(path, _)| path.as_str())
            .take_while(move |path| path.starts_with(&start))
    }

    /// True if nodes have the folder with the absolute `path`: the image has a file in it, or init creates it.
    pub fn has_folder(&self, path: &str) -> bool {
        const MADE: [&str; 5] = ["/", "/root", "/tmp", "/dev/shm", "/run"];
        let path = match path.trim_end_matches('/') {
            "" => "/",
            path => path,
        };
        MADE.contains(&path) || self.below(path).next().is_some()
    }

    /// Returns the paths of all files that contain `part`.
    pub fn with_part<'a>(&'a self, part: &'a str) -> impl Iterator<Item = &'a str> {
        let paths = self.files.keys().map(String::as_str);
        paths.filter(move |path| path.contains(part))
    }

    /// Returns the program that launches ranks of `mpi`.
    pub fn launcher(&self, mpi: Mpi) -> Option<&'static str> {
        let names = mpi.launchers().iter().copied();
        names.into_iter().find(|name| self.program(name).is_some())
    }

    /// True if it has `mpi`: the library and a launcher.
    pub fn has(&self, mpi: Mpi) -> bool {
        let mut libraries = mpi.libraries().iter();
        self.launcher(mpi).is_some() && libraries.any(|name| self.library(name).is_some())
    }

    /// True if there is a shell, which every workload needs.
    pub fn has_shell(&self) -> bool {
        self.real("/bin/sh").is_some()
    }
}

/// Returns the parts of a path in reverse order.
fn parts(path: &str) -> Vec<String> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.rev().map(str::to_owned).collect()
}

/// Returns the interpreter and its arguments of a script that begins with `first`.
pub fn interpreter_line(first: &[u8]) -> Option<Vec<String>> {
    let line = first.strip_prefix(b"#!")?;
    let line = line.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_through_links_as_in_the_guest() {
        let mut root = GuestRoot::default();
        root.add("/usr/bin/python3.11", b"");
        root.add("/lib/x86_64-linux-gnu/libz.so.1.2.13", b"");
        root.add("/bin/busybox", b"");
        root.link("/usr/bin/python3", "python3.11");
        root.link("/lib/x86_64-linux-gnu/libz.so.1", "libz.so.1.2.13");
        root.link("/bin/sh", "/bin/busybox");
        root.link("/lib64", "lib/x86_64-linux-gnu");
        root.link("/loop", "/loop");
        root.link("/up", "../../bin/./sh");
        assert_eq!(root.program("python3").unwrap(), "/usr/bin/python3.11");
        assert_eq!(root.program("/bin/sh").unwrap(), "/bin/busybox");
        assert_eq!(root.real("/up").unwrap(), "/bin/busybox");
        assert!(root.has_shell());
        let libz = "/lib/x86_64-linux-gnu/libz.so.1.2.13";
        assert_eq!(root.library("libz.so.1").unwrap(), libz);
        assert_eq!(root.real("/lib64/libz.so.1").unwrap(), libz);
        for absent in ["/loop", "/bin/no", "/bin", "", "/bin/busybox/x"] {
            assert_eq!(root.real(absent), None, "{absent}");
        }
    }

    #[test]
    fn first_lines_of_scripts_name_interpreters() {
        let line = |text: &str| interpreter_line(text.as_bytes());
        let words = line("#! /usr/bin/env python3\nprint()").unwrap();
        assert_eq!(words, ["/usr/bin/env", "python3"]);
        assert_eq!(line("#!\n"), None);
        assert_eq!(line("echo"), None);
    }
}
