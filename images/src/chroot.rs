//! The unpacked packages, read straight out of the tar archive that the bootstrap leaves behind.
//!
//! Nothing is unpacked to the host's disk: an index by absolute path is enough, and it spares the
//! builder from needing privileges for the owners and modes in the archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tar::{Archive, EntryType};

/// Longest chain of symbolic links followed, as in Linux.
const LINK_LIMIT: usize = 40;

/// Why something could not be had from the unpacked packages.
#[derive(Debug, thiserror::Error)]
pub enum ChrootError {
    /// The archive itself can't be read.
    #[error(
        "cannot read the unpacked packages in {path}: {source}; free some disk space and build again"
    )]
    Read {
        /// The archive.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that the recipe asks for is in none of the packages.
    #[error(
        "{path} is in none of the installed packages; correct the path or name its package in the recipe"
    )]
    Missing {
        /// Path inside the guest.
        path: String,
    },
    /// Symbolic links lead in a circle.
    #[error("{path} leads through more than {LINK_LIMIT} symbolic links")]
    Links {
        /// Path inside the guest.
        path: String,
    },
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Directory,
    File {
        offset: u64,
        size: u64,
        executable: bool,
    },
    Link(String),
}

/// Where a path leads: the links passed on the way and the path they end at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Each link passed, with its text, in order.
    pub(crate) links: Vec<(String, String)>,
    /// The path behind all links.
    pub(crate) path: String,
}

/// The files of a chroot, by absolute path.
#[derive(Debug)]
pub(crate) struct Chroot {
    archive: PathBuf,
    file: File,
    nodes: BTreeMap<String, Node>,
}

impl Chroot {
    pub(crate) fn open(archive: &Path) -> Result<Self, ChrootError> {
        let read = |source| ChrootError::Read {
            path: archive.to_owned(),
            source,
        };
        let file = File::open(archive).map_err(read)?;
        let nodes = index(&file).map_err(read)?;
        Ok(Self {
            archive: archive.to_owned(),
            file,
            nodes,
        })
    }

    /// All paths under a folder, in order. `folder` ends with a slash.
    pub(crate) fn under<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.nodes
            .range(folder.to_owned()..)
            .map(|(path, _)| path.as_str())
            .take_while(move |path| path.starts_with(folder))
    }

    /// Follows `path` through all symbolic links.
    pub(crate) fn resolve(&self, path: &str) -> Result<Resolved, ChrootError> {
        let mut links = Vec::new();
        let mut done = String::new();
        let mut rest: Vec<String> = components(path).rev().map(str::to_owned).collect();
        while let Some(part) = rest.pop() {
            if part == ".." {
                done.truncate(done.rfind('/').unwrap_or(0));
                continue;
            }
            let here = format!("{done}/{part}");
            match self.nodes.get(&here) {
                Some(Node::Link(target)) => {
                    if links.len() >= LINK_LIMIT {
                        return Err(ChrootError::Links {
                            path: path.to_owned(),
                        });
                    }
                    if target.starts_with('/') {
                        done.clear();
                    }
                    rest.extend(components(target).rev().map(str::to_owned));
                    links.push((here, target.clone()));
                }
                Some(_) => done = here,
                None => {
                    return Err(ChrootError::Missing {
                        path: path.to_owned(),
                    });
                }
            }
        }
        Ok(Resolved { links, path: done })
    }

    /// Whether a path leads to a regular file.
    pub(crate) fn is_file(&self, path: &str) -> bool {
        self.resolve(path)
            .is_ok_and(|end| matches!(self.nodes.get(&end.path), Some(Node::File { .. })))
    }

    /// Whether the file at a path without links may be executed.
    pub(crate) fn is_executable(&self, path: &str) -> bool {
        matches!(
            self.nodes.get(path),
            Some(Node::File {
                executable: true,
                ..
            })
        )
    }

    /// The bytes of the file that `path` leads to.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>, ChrootError> {
        let end = self.resolve(path)?;
        let Some(&Node::File { offset, size, .. }) = self.nodes.get(&end.path) else {
            return Err(ChrootError::Missing {
                path: path.to_owned(),
            });
        };
        let mut bytes = Vec::new();
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.take(size).read_to_end(&mut bytes))
            .map_err(|source| ChrootError::Read {
                path: self.archive.clone(),
                source,
            })?;
        Ok(bytes)
    }

    /// All files and links that a pattern names; `*` stands for anything within one component.
    pub(crate) fn matching(&self, pattern: &str) -> Result<Vec<String>, ChrootError> {
        let Some(star) = pattern.find('*') else {
            return Ok(vec![pattern.to_owned()]);
        };
        let folder = pattern[..star]
            .rfind('/')
            .map_or("/", |end| &pattern[..=end]);
        let found: Vec<String> = self
            .under(folder)
            .filter(|path| matches(pattern, path) && self.is_file(path))
            .map(str::to_owned)
            .collect();
        if found.is_empty() {
            return Err(ChrootError::Missing {
                path: pattern.to_owned(),
            });
        }
        Ok(found)
    }
}

fn index(file: &File) -> std::io::Result<BTreeMap<String, Node>> {
    let mut nodes = BTreeMap::new();
    let mut hard_links = Vec::new();
    let mut archive = Archive::new(file);
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let path = absolute(&entry.path_bytes());
        let target = entry
            .link_name_bytes()
            .map(|name| String::from_utf8_lossy(&name).into_owned());
        let node = match (entry.header().entry_type(), target) {
            (EntryType::Directory, _) => Node::Directory,
            (EntryType::Symlink, Some(target)) => Node::Link(target),
            (EntryType::Link, Some(target)) => {
                hard_links.push((path, absolute(target.as_bytes())));
                continue;
            }
            (EntryType::Regular | EntryType::Continuous, _) => Node::File {
                offset: entry.raw_file_position(),
                size: entry.size(),
                executable: entry.header().mode()? & 0o111 != 0,
            },
            _ => continue,
        };
        nodes.insert(path, node);
    }
    for (path, target) in hard_links {
        if let Some(node) = nodes.get(&target).cloned() {
            nodes.insert(path, node);
        }
    }
    Ok(nodes)
}

fn components(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !matches!(*part, "" | "."))
}

fn absolute(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let mut out = String::with_capacity(text.len() + 1);
    for part in components(&text) {
        out.push('/');
        out.push_str(part);
    }
    out
}

/// Whether `path` fits `pattern`, component by component.
fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    pattern
        .split('/')
        .all(|part| parts.next().is_some_and(|name| part_matches(part, name)))
        && parts.next().is_none()
}

fn part_matches(pattern: &str, name: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    while let Some((middle, tail)) = rest.split_once('*') {
        let Some(at) = name.find(middle) else {
            return false;
        };
        name = &name[at + middle.len()..];
        rest = tail;
    }
    name.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Builder, Header};

    fn chroot(links: &[(&str, &str)], files: &[(&str, &[u8])]) -> (tempfile::TempDir, Chroot) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("chroot.tar");
        let mut tar = Builder::new(File::create(&path).expect("archive"));
        let mut header = Header::new_ustar();
        header.set_mode(0o755);
        for name in ["usr/", "usr/lib/", "bin/"] {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            tar.append_data(&mut header, name, &b""[..])
                .expect("folder");
        }
        for (name, target) in links {
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            tar.append_link(&mut header, name, target).expect("link");
        }
        for (name, bytes) in files {
            header.set_entry_type(EntryType::Regular);
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, name, *bytes).expect("file");
        }
        tar.finish().expect("archive");
        let chroot = Chroot::open(&path).expect("index");
        (folder, chroot)
    }

    #[test]
    fn links_are_followed_and_listed() {
        let links = [
            ("lib", "usr/lib"),
            ("usr/lib/libx.so", "/lib/libx.so.1"),
            ("bin/up", "../usr/lib/a"),
        ];
        let (_folder, chroot) = chroot(
            &links,
            &[("usr/lib/libx.so.1", b"library"), ("usr/lib/a", b"A")],
        );
        let end = chroot.resolve("/lib/libx.so").expect("resolves");
        assert_eq!(end.path, "/usr/lib/libx.so.1");
        let passed: Vec<&str> = end.links.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(passed, ["/lib", "/usr/lib/libx.so", "/lib"]);
        assert_eq!(chroot.read("/lib/libx.so").expect("reads"), b"library");
        assert_eq!(chroot.read("/bin/up").expect("reads"), b"A");
    }

    #[test]
    fn circles_and_gaps_are_errors() {
        let (_folder, chroot) = chroot(&[("a", "b"), ("b", "a")], &[]);
        assert!(matches!(
            chroot.resolve("/a"),
            Err(ChrootError::Links { .. })
        ));
        assert!(matches!(
            chroot.resolve("/usr/none"),
            Err(ChrootError::Missing { .. })
        ));
        assert!(matches!(
            chroot.read("/usr"),
            Err(ChrootError::Missing { .. })
        ));
    }

    #[test]
    fn a_star_stays_within_one_component() {
        let files: [(&str, &[u8]); 3] = [
            ("usr/lib/libp.so.0", b"p"),
            ("usr/lib/libq.so.1", b"q"),
            ("usr/lib/deep/libr.so.0", b"r"),
        ];
        let (_folder, chroot) = chroot(&[], &files);
        assert_eq!(
            chroot.matching("/usr/lib/*.so.0").expect("found"),
            ["/usr/lib/libp.so.0"]
        );
        assert_eq!(chroot.matching("/usr/*/lib*.so.*").expect("found").len(), 2);
        assert!(chroot.matching("/usr/lib/*.a").is_err());
    }
}
