//! The file tree of an image before it is written: what lies where and where it comes from.

use std::collections::{BTreeMap, BTreeSet};

use crate::chroot::{Chroot, ChrootError};
use crate::elf;

/// Where Debian's dynamic loader looks when a library says nothing else.
const LIBRARY_FOLDERS: [&str; 4] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib",
    "/usr/lib",
];

/// Why a file tree could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum ContentsError {
    /// A file is not in the packages.
    #[error(transparent)]
    Chroot(#[from] ChrootError),
    /// A shared library is not in the packages.
    #[error(
        "{needed_by} needs {library}, which is in none of the installed packages; add the package that has it to userland.packages"
    )]
    Library {
        /// The library's name.
        library: String,
        /// The file that asks for it.
        needed_by: String,
    },
    /// Two things want the same path.
    #[error("{path} is to hold both {first} and {second}; take one of them out of the recipe")]
    Clash {
        /// Path inside the guest.
        path: String,
        /// What is there already.
        first: &'static str,
        /// What was to be put there.
        second: &'static str,
    },
}

/// Who made a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The distribution: the bytes are those of a package's file at this path.
    Package(String),
    /// This project: written or compiled for the image.
    Ours,
}

/// What stands at a path of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Directory,
    Link(String),
    File {
        bytes: Vec<u8>,
        executable: bool,
        origin: Origin,
    },
}

/// Links on the way to a file, beyond which they are taken for a circle.
const MOST_LINKS: usize = 40;

impl Item {
    fn kind(&self) -> &'static str {
        match self {
            Self::Directory => "a folder",
            Self::Link(_) => "a symbolic link",
            Self::File { .. } => "a file",
        }
    }
}

/// A file tree, by absolute path; parents stand before their children.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    items: BTreeMap<String, Item>,
}

impl Contents {
    pub(crate) fn items(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.items.iter().map(|(path, item)| (path.as_str(), item))
    }

    pub(crate) fn holds(&self, path: &str) -> bool {
        self.items.contains_key(&self.behind_links(path))
    }

    /// Puts `item` at `path`, through links on the way, and makes the folders above it.
    pub(crate) fn insert(&mut self, path: &str, item: Item) -> Result<(), ContentsError> {
        let path = &self.behind_links(path);
        for (end, _) in path.match_indices('/').skip(1) {
            self.insert_one(&path[..end], Item::Directory)?;
        }
        self.insert_one(path, item)
    }

    /// Where `path` leads when a folder above it is a link of this tree, as `/bin` is
    /// where everything lies under `/usr`.
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
            let above = path[..end].rfind('/').unwrap_or(0);
            let folder = if target.starts_with('/') {
                target.clone()
            } else {
                format!("{}/{target}", &path[..above])
            };
            path = format!("{folder}{}", &path[end..]);
        }
        path
    }

    fn insert_one(&mut self, path: &str, item: Item) -> Result<(), ContentsError> {
        match self.items.get(path) {
            None => {
                self.items.insert(path.to_owned(), item);
                Ok(())
            }
            Some(there) if *there == item => Ok(()),
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

    /// Takes a file from the packages, to lie at another path.
    pub(crate) fn take_as(
        &mut self,
        chroot: &Chroot,
        path: &str,
        at: &str,
    ) -> Result<(), ContentsError> {
        let bytes = chroot.read(path)?;
        let executable = chroot.is_executable(path);
        self.insert(
            at,
            Item::File {
                bytes,
                executable,
                origin: Origin::Package(path.to_owned()),
            },
        )
    }

    /// Takes every shared library that the files in the tree need, and those that these need.
    /// `links` will lie in the tree beside what the packages have: what they lead to counts.
    pub(crate) fn close_over_libraries(
        &mut self,
        chroot: &Chroot,
        links: &BTreeMap<String, String>,
    ) -> Result<(), ContentsError> {
        let mut open: Vec<String> = self.items.keys().cloned().collect();
        let mut seen = BTreeSet::new();
        while let Some(path) = open.pop() {
            let Some(Item::File { bytes, .. }) = self.items.get(&path) else {
                continue;
            };
            let Some(needs) = elf::needs(bytes) else {
                continue;
            };
            if !seen.insert(path.clone()) {
                continue;
            }
            for library in &needs.libraries {
                let found = folders(&needs.folders, &path)
                    .find_map(|folder| find_library(chroot, links, &folder, library));
                let found = found.ok_or_else(|| ContentsError::Library {
                    library: library.clone(),
                    needed_by: path.clone(),
                })?;
                open.push(self.take(chroot, &found)?);
            }
            if let Some(loader) = needs.loader {
                open.push(self.take(chroot, &loader)?);
            }
        }
        Ok(())
    }
}

/// Where the loader looks for libraries that the file at `path` needs: in `own` folders first.
fn folders(own: &[String], path: &str) -> impl Iterator<Item = String> {
    let origin = path.rfind('/').map_or("", |end| &path[..end]);
    let own = own.iter().map(move |folder| {
        folder
            .replace("$ORIGIN", origin)
            .replace("${ORIGIN}", origin)
    });
    own.chain(LIBRARY_FOLDERS.into_iter().map(str::to_owned))
}

fn find_library(
    chroot: &Chroot,
    links: &BTreeMap<String, String>,
    folder: &str,
    name: &str,
) -> Option<String> {
    let path = format!("{folder}/{name}");
    if chroot.is_file(&path) {
        return Some(path);
    }
    let target = links.get(&path)?;
    let behind = if target.starts_with('/') {
        target.clone()
    } else {
        format!("{folder}/{target}")
    };
    chroot.is_file(&behind).then_some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> Item {
        Item::File {
            bytes: bytes.to_vec(),
            executable: false,
            origin: Origin::Ours,
        }
    }

    #[test]
    fn folders_come_with_what_they_hold() {
        let mut contents = Contents::default();
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
        let mut contents = Contents::default();
        contents
            .insert("/bin", Item::Link("usr/bin".into()))
            .expect("inserts");
        contents.insert("/bin/x", file(b"x")).expect("inserts");
        assert!(contents.holds("/usr/bin/x") && contents.holds("/bin/x"));
        contents
            .insert("/loop", Item::Link("loop".into()))
            .expect("inserts");
        assert!(contents.insert("/loop/x", file(b"x")).is_err());
    }

    #[test]
    fn two_different_things_at_one_path_clash() {
        let mut contents = Contents::default();
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
