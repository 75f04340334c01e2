//! Files of a workload given as folders and patterns.
//!
//! They are expanded into single files before any other use: by the plan, which reads them, and by the
//! standalone scenario, which copies them. Both see the same.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use super::FileSource;

/// The name that puts a folder's files, or matching files, directly into the command's folder.
pub(crate) const HERE: &str = ".";
/// Maximum number of files of one workload.
const MOST: usize = 100_000;

/// Errors of finding files.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// An invalid pattern.
    #[error("workload.files: `{name}`: {path:?} is not a pattern: {reason}")]
    Pattern {
        /// Its name in the guest.
        name: String,
        /// The pattern.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A pattern without matches.
    #[error(
        "workload.files: `{name}`: nothing matches {path}; write a path or a pattern that is there"
    )]
    Nothing {
        /// Its name in the guest.
        name: String,
        /// The pattern.
        path: PathBuf,
    },
    /// A folder or a file in it cannot be read.
    #[error("workload.files: `{name}`: cannot read {path}: {source}")]
    Io {
        /// Its name in the guest.
        name: String,
        /// The path.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// Too many files.
    #[error(
        "workload.files: `{name}`: {path} has more than {MOST} files; pack them into an archive"
    )]
    Many {
        /// Its name in the guest.
        name: String,
        /// The folder.
        path: PathBuf,
    },
    /// A file's name is no valid text.
    #[error("workload.files: `{name}`: the name of {path:?} is not UTF-8; rename the file")]
    Name {
        /// The folder's name in the guest.
        name: String,
        /// The file.
        path: PathBuf,
    },
}

/// `files` with each folder and pattern expanded into its files; paths are relative to `folder`. A
/// matching file keeps its path from the last folder before the first wildcard.
///
/// # Errors
/// See [`FilesError`]. Single files are not accessed.
pub(crate) fn expand(
    files: &BTreeMap<String, FileSource>,
    folder: &Path,
) -> Result<BTreeMap<String, FileSource>, FilesError> {
    let mut all = BTreeMap::new();
    for (name, source) in files {
        let FileSource::Path(path) = source else {
            all.insert(name.clone(), source.clone());
            continue;
        };
        let full = folder.join(path);
        let mut found = EntryFiles {
            name,
            files: &mut all,
        };
        if full.is_dir() {
            found.add_folder(name, &full)?;
        } else if is_pattern(path) && fs::symlink_metadata(&full).is_err() {
            found.add_matches(&full)?;
        } else {
            all.insert(name.clone(), source.clone());
        }
    }
    Ok(all)
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// A pattern, and the number of components of matching paths, if it is fixed.
struct Matching {
    glob: Pattern,
    deepest: Option<usize>,
}

impl Matching {
    fn fits(&self, path: &Path) -> bool {
        let options = MatchOptions {
            require_literal_separator: true,
            require_literal_leading_dot: true,
            ..MatchOptions::new()
        };
        self.glob.matches_path_with(path, options)
    }

    /// True if a file in the folder `path` can match.
    fn goes_below(&self, path: &Path) -> bool {
        let parts = path.to_string_lossy().split('/').count();
        self.deepest.is_none_or(|deepest| parts < deepest)
    }
}

/// Files of one entry, as they are found.
struct EntryFiles<'a> {
    /// The entry's name.
    name: &'a str,
    files: &'a mut BTreeMap<String, FileSource>,
}

impl EntryFiles<'_> {
    /// Adds the matches of `pattern`, by their paths from the last folder before the first wildcard.
    fn add_matches(&mut self, pattern: &Path) -> Result<(), FilesError> {
        let wrong = |reason: String| FilesError::Pattern {
            name: self.name.to_owned(),
            path: pattern.to_owned(),
            reason,
        };
        let text = pattern
            .to_str()
            .ok_or_else(|| wrong("no text".to_owned()))?;
        let glob = Pattern::new(text).map_err(|error| wrong(error.to_string()))?;
        let parts = |text: &str| text.split('/').count();
        let deepest = (!text.contains("**")).then(|| parts(text));
        let first = text.find(['*', '?', '[']).unwrap_or(text.len());
        let base = text[..first].rfind('/').map_or("", |end| &text[..end]);
        let before = self.files.len();
        let matching = Matching { glob, deepest };
        self.add_below(self.name, Path::new(base), &matching)?;
        if self.files.len() == before {
            return Err(FilesError::Nothing {
                name: self.name.to_owned(),
                path: pattern.to_owned(),
            });
        }
        Ok(())
    }

    /// Adds the matches in the folder `path`, which is called `own` in the guest.
    fn add_below(&mut self, own: &str, path: &Path, matching: &Matching) -> Result<(), FilesError> {
        for entry in self.entries(path)? {
            let (below, at) = (self.below(own, &entry.path())?, entry.path());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match (matching.fits(&at), is_folder) {
                (true, true) => self.add_folder(&below, &at)?,
                (true, false) if at.is_file() => self.add(below, at)?,
                (false, true) if matching.goes_below(&at) => {
                    self.add_below(&below, &at, matching)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The entries of a folder, in any order.
    fn entries(&self, path: &Path) -> Result<Vec<fs::DirEntry>, FilesError> {
        let read = fs::read_dir(path).and_then(Iterator::collect);
        read.map_err(|source| FilesError::Io {
            name: self.name.to_owned(),
            path: path.to_owned(),
            source,
        })
    }

    /// Adds the content of the folder `path`, which is called `own` in the guest.
    fn add_folder(&mut self, own: &str, path: &Path) -> Result<(), FilesError> {
        for entry in self.entries(path)? {
            let (below, at) = (self.below(own, &entry.path())?, entry.path());
            // A link to a parent folder would be followed for ever.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.add_folder(&below, &at)?;
            } else if at.is_file() {
                self.add(below, at)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, own: String, path: PathBuf) -> Result<(), FilesError> {
        if self.files.len() >= MOST {
            return Err(FilesError::Many {
                name: self.name.to_owned(),
                path,
            });
        }
        self.files.insert(own, FileSource::Path(path));
        Ok(())
    }

    /// The name of `path` in the guest's folder `own`.
    fn below(&self, own: &str, path: &Path) -> Result<String, FilesError> {
        let last = path.file_name().and_then(|last| last.to_str());
        let last = last.ok_or_else(|| FilesError::Name {
            name: self.name.to_owned(),
            path: path.to_owned(),
        })?;
        Ok(match own {
            HERE => last.to_owned(),
            own => format!("{own}/{last}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(folder: &Path, name: &str, path: &str) -> Result<Vec<String>, String> {
        let files = BTreeMap::from([(name.to_owned(), FileSource::Path(path.into()))]);
        let all = expand(&files, folder).map_err(|error| error.to_string())?;
        let words = all.iter().map(|(name, source)| match source {
            FileSource::Path(path) => {
                let path = path.strip_prefix(folder).unwrap_or(path);
                format!("{name}={}", path.display())
            }
            FileSource::Text { .. } => name.clone(),
        });
        Ok(words.collect())
    }

    #[test]
    fn folders_and_patterns_are_the_files_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        fs::create_dir_all(at.join("in/deep")).unwrap();
        for file in ["in/a.dat", "in/b.txt", "in/deep/c.dat", "what[1].dat"] {
            fs::write(at.join(file), file).unwrap();
        }
        std::os::unix::fs::symlink("..", at.join("in/up")).unwrap();
        let of = |name, path| expanded(at, name, path).unwrap();
        assert_eq!(
            of("data", "in"),
            [
                "data/a.dat=in/a.dat",
                "data/b.txt=in/b.txt",
                "data/deep/c.dat=in/deep/c.dat"
            ]
        );
        assert_eq!(
            of(".", "in"),
            [
                "a.dat=in/a.dat",
                "b.txt=in/b.txt",
                "deep/c.dat=in/deep/c.dat"
            ]
        );
        assert_eq!(of(".", "in/*.dat"), ["a.dat=in/a.dat"]);
        assert_eq!(
            of("x", "in/**/*.dat"),
            ["x/a.dat=in/a.dat", "x/deep/c.dat=in/deep/c.dat"]
        );
        assert_eq!(of("x", "in/d*"), ["x/deep/c.dat=in/deep/c.dat"]);
        // An existing file of that very name takes precedence over a pattern.
        assert_eq!(of("x", "what[1].dat"), ["x=what[1].dat"]);
        assert_eq!(of("x", "missing"), ["x=missing"]);
        let error = expanded(at, "x", "in/*.none").unwrap_err();
        assert!(error.contains("nothing matches"), "{error}");
        let error = expanded(at, "x", "in/***").unwrap_err();
        assert!(error.contains("is not a pattern"), "{error}");
    }
}
