//! The shared libraries that an image's files need: the recipe does not have to name them. `DT_NEEDED` is
//! followed transitively, with the loader's search order. First come folders that the files themselves name
//! (`DT_RUNPATH`, and `DT_RPATH`, which dependencies inherit), then the loader's own, then the recipe's
//! `lib_paths`. A library from elsewhere gets a link in the loader's own folder. Called once for each of an
//! image's file trees.

use std::collections::{BTreeMap, BTreeSet};

use crate::debian::chroot::Chroot;
use crate::filesystem::contents::{ContentsError, Item, TreeContents};
use crate::recipe::pattern::Pattern;

/// Default search folders of Debian's dynamic loader.
const LOADER_FOLDERS: [&str; 4] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib",
    "/usr/lib",
];

/// Folders of libraries that the user installs, which Debian's loader would find through its cache.
const LOCAL_FOLDERS: [&str; 2] = ["/usr/local/lib/x86_64-linux-gnu", "/usr/local/lib"];

/// Folder of links to libraries from elsewhere.
const LINK_FOLDER: &str = LOADER_FOLDERS[1];

/// Value of `$LIB`.
const LIB: &str = "lib/x86_64-linux-gnu";

/// Sources of libraries.
pub(crate) struct Libraries<'a> {
    pub(crate) chroot: &'a Chroot,
    /// The recipe's links, which are followed, too.
    pub(crate) links: &'a BTreeMap<String, String>,
    /// The recipe's library folders.
    pub(crate) paths: &'a [String],
    /// Names of libraries that may be missing.
    pub(crate) optional: &'a [String],
}

/// A file whose dependencies are still to be read, and the folders that it inherits.
type Open = (String, Vec<String>);

/// Libraries not found in any of the loader's folders: the file that needs it, and its name.
type Missing = BTreeSet<(String, String)>;

/// A library that was found.
struct FoundLibrary {
    path: String,
    /// It is in the tree already, at its real path.
    is_taken: bool,
    /// The loader needs a link to find it.
    needs_link: bool,
}

impl Libraries<'_> {
    /// Takes every shared library that the files in the tree need, transitively.
    pub(crate) fn close(&self, contents: &mut TreeContents) -> Result<(), ContentsError> {
        let mut open: Vec<Open> = contents
            .items()
            .map(|(path, _)| (path.to_owned(), Vec::new()))
            .collect();
        let mut seen = BTreeSet::new();
        loop {
            let mut missing = Missing::new();
            while let Some(one) = open.pop() {
                if seen.insert(one.clone()) {
                    self.look_into(contents, &one, &mut open, &mut missing)?;
                }
            }
            for (needed_by, library) in missing {
                open.extend(self.take_elsewhere(contents, &needed_by, &library)?);
            }
            if open.is_empty() {
                return Ok(());
            }
        }
    }

    fn look_into(
        &self,
        contents: &mut TreeContents,
        (path, inherited): &Open,
        open: &mut Vec<Open>,
        missing: &mut Missing,
    ) -> Result<(), ContentsError> {
        let Some(Item::File { data, .. }) = contents.get(path) else {
            return Ok(());
        };
        let needs = data.needs().map_err(|source| ContentsError::Read {
            path: path.clone(),
            source,
        })?;
        let Some(needs) = needs else { return Ok(()) };
        let own = expanded(&needs.folders, path);
        let mut passed_on = inherited.clone();
        if needs.inherited {
            passed_on.retain(|folder| !own.contains(folder));
            passed_on.splice(0..0, own.iter().cloned());
        }
        for library in &needs.libraries {
            let Some(found) = self.find(contents, &[&own, inherited], library) else {
                missing.insert((path.clone(), library.clone()));
                continue;
            };
            let real = self.take(contents, &found, library)?;
            open.push((real, passed_on.clone()));
        }
        if let Some(loader) = needs.loader
            && contents.file_at(&loader).is_none()
        {
            open.push((contents.take(self.chroot, &loader)?, Vec::new()));
        }
        Ok(())
    }

    /// Searches the loader's folders in order.
    fn find(
        &self,
        contents: &TreeContents,
        own: &[&Vec<String>],
        library: &str,
    ) -> Option<FoundLibrary> {
        let first = own.iter().flat_map(|folders| folders.iter());
        let first = first.map(|folder| (folder.as_str(), false));
        let loader = LOADER_FOLDERS.map(|folder| (folder, false));
        let recipe = self.paths.iter().map(|folder| (folder.as_str(), true));
        let local = LOCAL_FOLDERS.map(|folder| (folder, true));
        let mut folders = first.chain(loader).chain(recipe).chain(local);
        folders.find_map(|(folder, needs_link)| {
            let path = format!("{folder}/{library}");
            let taken = contents.file_at(&path);
            let is_taken = taken.is_some();
            let path = taken.or_else(|| self.in_packages(folder, &path))?;
            Some(FoundLibrary {
                path,
                is_taken,
                needs_link,
            })
        })
    }

    /// A file of the packages at `path`, or the target of a recipe's link there.
    fn in_packages(&self, folder: &str, path: &str) -> Option<String> {
        if self.chroot.is_file(path) {
            return Some(path.to_owned());
        }
        let target = self.links.get(path)?;
        let end = if target.starts_with('/') {
            target.clone()
        } else {
            format!("{folder}/{target}")
        };
        self.chroot.is_file(&end).then_some(end)
    }

    /// Adds a found library to the tree, and returns its real path.
    fn take(
        &self,
        contents: &mut TreeContents,
        found: &FoundLibrary,
        library: &str,
    ) -> Result<String, ContentsError> {
        let real = if found.is_taken {
            found.path.clone()
        } else {
            contents.take(self.chroot, &found.path)?
        };
        let link = format!("{LINK_FOLDER}/{library}");
        if found.needs_link && !contents.holds(&link) {
            contents.insert(&link, Item::Link(real.clone()))?;
        }
        Ok(real)
    }

    /// Handles a library that the loader does not find: skips an optional one, and one in the image, which its
    /// user loads by path; otherwise takes the only one in the packages.
    fn take_elsewhere(
        &self,
        contents: &mut TreeContents,
        needed_by: &str,
        library: &str,
    ) -> Result<Option<Open>, ContentsError> {
        let mut patterns = self.optional.iter().filter_map(|name| Pattern::new(name));
        if patterns.any(|pattern| pattern.matches(library)) || contents.has_named(library) {
            return Ok(None);
        }
        let (library, needed_by) = (library.to_owned(), needed_by.to_owned());
        let places = self.chroot.named(&library);
        match &places[..] {
            [] => Err(ContentsError::Library { library, needed_by }),
            [path] => {
                let found = FoundLibrary {
                    path: path.clone(),
                    is_taken: false,
                    needs_link: true,
                };
                let real = self.take(contents, &found, &library)?;
                Ok(Some((real, Vec::new())))
            }
            several => Err(ContentsError::Several {
                library,
                needed_by,
                places: several.join(" and "),
            }),
        }
    }
}

/// The folders that the file at `path` names, with variables expanded.
fn expanded(folders: &[String], path: &str) -> Vec<String> {
    let origin = path.rfind('/').map_or("", |end| &path[..end]);
    let one = |folder: &String| {
        folder
            .replace("${ORIGIN}", origin)
            .replace("$ORIGIN", origin)
            .replace("${LIB}", LIB)
            .replace("$LIB", LIB)
    };
    folders.iter().map(one).collect()
}

#[cfg(test)]
mod tests;
