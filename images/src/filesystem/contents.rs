//! The file tree of an image before it is written: paths, and the origin of each file.
//!
//! Each path has one item, and two items at the same path are an error; parents precede their children.
//! Links are followed within the tree, up to a limit. Filled by `layout` and `libraries`, written by
//! `rootfs` and `initrd`.

use std::collections::BTreeMap;

use crate::debian::chroot::{Chroot, ChrootEntryKind, ChrootError};
use crate::filesystem::data::Data;

/// An error of assembling a file tree.
#[derive(Debug, thiserror::Error)]
pub enum ContentsError {
    /// A file is not in the packages.
    #[error(transparent)]
    Chroot(#[from] ChrootError),
    /// A shared library is not in any package.
    #[error(
        "{needed_by} needs {library}, which is in none of the installed packages; add the package that has it to userland.packages, or its name to userland.optional_libraries if the program does without"
    )]
    Library {
        /// The library's name.
        library: String,
        /// The file that asks for it.
        needed_by: String,
    },
    /// A shared library is in several folders, and the loader searches none.
    #[error(
        "{needed_by} needs {library}, which the packages have at {places}; name the folder of the right one in userland.lib_paths, or link to it in userland.links"
    )]
    Several {
        /// The library's name.
        library: String,
        /// The file that needs it.
        needed_by: String,
        /// The paths at which it is.
        places: String,
    },
    /// A file whose dependencies are needed can't be read.
    #[error("cannot read what is to be {path}: {source}; build again")]
    Read {
        /// Path inside the guest.
        path: String,
        /// System error.
        source: std::io::Error,
    },
    /// Two items have the same path.
    #[error("{path} is to hold both {first} and {second}; take one of them out of the recipe")]
    Clash {
        /// Path inside the guest.
        path: String,
        /// The existing item.
        first: &'static str,
        /// The item to be added.
        second: &'static str,
    },
}

/// Origin of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The distribution: the bytes are those of a package's file at this path.
    Package(String),
    /// This project: written or compiled for the image.
    Ours,
}

/// An item at a path of the tree.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Directory,
    Link(String),
    File {
        data: Data,
        executable: bool,
        origin: Origin,
    },
}

/// Limit on links on the way to a file, above which they are taken for a loop.
const MOST_LINKS: usize = 40;

impl Item {
    /// A file of this project or of the user.
    pub(crate) fn ours(data: Data, executable: bool) -> Self {
        Self::File {
            data,
            executable,
            origin: Origin::Ours,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Directory, Self::Directory) => true,
            (Self::Link(one), Self::Link(other)) => one == other,
            (
                Self::File {
                    data: one,
                    executable: first,
                    origin: from,
                },
                Self::File {
                    data: other,
                    executable: second,
                    origin: of,
                },
            ) => from == of && first == second && one.is_same(other),
            _ => false,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Directory => "a folder",
            Self::Link(_) => "a symbolic link",
            Self::File { .. } => "a file",
        }
    }
}

/// A file tree, by absolute path; parents precede their children.
#[derive(Debug, Default)]
pub(crate) struct TreeContents {
    items: BTreeMap<String, Item>,
}

impl TreeContents {
    pub(crate) fn items(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.items.iter().map(|(path, item)| (path.as_str(), item))
    }

    pub(crate) fn holds(&self, path: &str) -> bool {
        self.items.contains_key(&self.behind_links(path))
    }

    /// Puts `item` at `path`, following links on the way, and makes the parent folders.
    pub(crate) fn insert(&mut self, path: &str, item: Item) -> Result<(), ContentsError> {
        let path = &self.behind_links(path);
        for (end, _) in path.match_indices('/').skip(1) {
            self.insert_one(&path[..end], Item::Directory)?;
        }
        self.insert_one(path, item)
    }

    /// Resolves links in the folders above `path` within this tree, such as `/bin` to `/usr/bin`.
    fn behind_links(&self, path: &str) -> String {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let link = path.match_indices('/').skip(1).find_map(|(end, _)| {
                match self.items.get(&path[..end]) {
                    Some(Item::Link(target)) => Some((end, target)),
                    _ => None,
                }
            });
            let Some((end, target)) = link else { break };
            path = format!("{}{}", joined(&path[..end], target), &path[end..]);
        }
        path
    }

    fn insert_one(&mut self, path: &str, item: Item) -> Result<(), ContentsError> {
        match self.items.get(path) {
            None => {
                self.items.insert(path.to_owned(), item);
                Ok(())
            }
            Some(there) if there.is_same(&item) => Ok(()),
            Some(there) => Err(ContentsError::Clash {
                path: path.to_owned(),
                first: there.kind(),
                second: item.kind(),
            }),
        }
    }

    /// Takes the file that `path` leads to, and the links on the way, from the packages.
    pub(crate) fn take(&mut self, chroot: &Chroot, path: &str) -> Result<String, ContentsError> {
        let end = chroot.resolve(path)?;
        for (link, target) in end.links {
            self.insert(&link, Item::Link(target))?;
        }
        self.take_as(chroot, &end.path, &end.path)?;
        Ok(end.path)
    }

    /// Takes a file from the packages, and puts it at another path.
    pub(crate) fn take_as(
        &mut self,
        chroot: &Chroot,
        path: &str,
        at: &str,
    ) -> Result<(), ContentsError> {
        let item = Item::File {
            data: chroot.data(path)?,
            executable: chroot.is_executable(path),
            origin: Origin::Package(path.to_owned()),
        };
        // Many files need the same libraries: a file already taken from there is not read for a comparison.
        let there = self.items.get(&self.behind_links(at));
        if let (
            Some(Item::File { origin: there, .. }),
            Item::File {
                origin: Origin::Package(own),
                ..
            },
        ) = (there, &item)
            && *there == Origin::Package(own.clone())
        {
            return Ok(());
        }
        self.insert(at, item)
    }

    /// Takes the packages' item at `path`: a file with the links that lead to it, any other link as it is,
    /// or a folder.
    pub(crate) fn take_any(&mut self, chroot: &Chroot, path: &str) -> Result<(), ContentsError> {
        let above = self.follow(chroot, path)?;
        let name = path.rfind('/').map_or(path, |at| &path[at..]);
        let real = format!("{above}{name}");
        match chroot.kind(&real) {
            Some(ChrootEntryKind::Link(target)) if !chroot.is_file(&real) => {
                let target = target.to_owned();
                self.insert(&real, Item::Link(target))
            }
            Some(ChrootEntryKind::Directory) => self.insert(&real, Item::Directory),
            _ => self.take(chroot, path).map(drop),
        }
    }

    /// Adds the packages' links above `path` to the tree, so that items at `path` are put into their
    /// folders, and returns the real folder.
    pub(crate) fn follow(&mut self, chroot: &Chroot, path: &str) -> Result<String, ContentsError> {
        let mut folder = path.rfind('/').map_or("", |end| &path[..end]);
        let below = folder;
        // The packages may have only a part of the way.
        let end = loop {
            match chroot.resolve(folder) {
                Ok(end) => break end,
                Err(_) => folder = folder.rfind('/').map_or("", |end| &folder[..end]),
            }
        };
        for (link, target) in end.links {
            self.insert(&link, Item::Link(target))?;
        }
        Ok(format!("{}{}", end.path, &below[folder.len()..]))
    }

    /// The real path of the file that `path` leads to in this tree.
    pub(crate) fn file_at(&self, path: &str) -> Option<String> {
        let mut path = normal(path);
        for _ in 0..MOST_LINKS {
            path = normal(&self.behind_links(&path));
            match self.items.get(&path)? {
                Item::File { .. } => return Some(path),
                Item::Link(target) => path = normal(&joined(&path, target)),
                Item::Directory => return None,
            }
        }
        None
    }

    /// True if a file or a link with this name is in any folder.
    pub(crate) fn has_named(&self, name: &str) -> bool {
        self.items.iter().any(|(path, item)| {
            !matches!(item, Item::Directory) && path.rsplit('/').next() == Some(name)
        })
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Item> {
        self.items.get(path)
    }
}

/// The target of a link at `path`, as a path.
fn joined(path: &str, target: &str) -> String {
    if target.starts_with('/') {
        return target.to_owned();
    }
    let above = path.rfind('/').map_or("", |end| &path[..end]);
    format!("{above}/{target}")
}

/// A path without `.`, `..` and empty parts.
pub(crate) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.iter().flat_map(|part| ["/", part]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> Item {
        Item::ours(Data::Bytes(bytes.to_vec()), false)
    }

    #[test]
    fn folders_come_with_what_they_hold() {
        let mut contents = TreeContents::default();
        contents
            .insert("/usr/local/bin/x", file(b"x"))
            .expect("inserts");
        contents
            .insert("/usr/local/bin/y", file(b"y"))
            .expect("inserts");
        let paths: Vec<&str> = contents.items().map(|(path, _)| path).collect();
        assert_eq!(
            paths,
            [
                "/usr",
                "/usr/local",
                "/usr/local/bin",
                "/usr/local/bin/x",
                "/usr/local/bin/y"
            ]
        );
    }

    #[test]
    fn links_to_folders_lead_into_them() {
        let mut contents = TreeContents::default();
        contents
            .insert("/bin", Item::Link("usr/bin".into()))
            .expect("inserts");
        contents.insert("/bin/x", file(b"x")).expect("inserts");
        assert!(contents.holds("/usr/bin/x") && contents.holds("/bin/x"));
        contents
            .insert("/bin/y", Item::Link("../bin/x".into()))
            .expect("inserts");
        assert_eq!(contents.file_at("/bin/./y").as_deref(), Some("/usr/bin/x"));
        assert_eq!(contents.file_at("/bin"), None);
        assert!(contents.has_named("y") && !contents.has_named("bin/y"));
        contents
            .insert("/loop", Item::Link("loop".into()))
            .expect("inserts");
        assert!(contents.insert("/loop/x", file(b"x")).is_err());
    }

    #[test]
    fn two_different_things_at_one_path_clash() {
        let mut contents = TreeContents::default();
        contents.insert("/etc/hosts", file(b"a")).expect("inserts");
        contents
            .insert("/etc/hosts", file(b"a"))
            .expect("the same again is no clash");
        let clash = contents.insert("/etc/hosts", file(b"b"));
        assert!(matches!(clash, Err(ContentsError::Clash { .. })));
        let below = contents
            .insert("/etc/hosts/x", file(b"b"))
            .expect_err("a file is no folder");
        assert!(
            below
                .to_string()
                .contains("/etc/hosts is to hold both a file and a folder")
        );
    }
}
