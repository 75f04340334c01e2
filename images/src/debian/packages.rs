//! Metadata of dpkg and apt about the installed packages, and the check of an image against it.
//!
//! Every file from the distribution in an image has the bytes of its package, or the build fails. Called
//! once for each build, and for files that a recipe takes from a package.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::debian::bootstrap::{self, NOTES};
use crate::debian::chroot::{Chroot, ChrootError};
use crate::filesystem::contents::{Item, Origin, TreeContents};
use crate::filesystem::data::Data;

/// An error of checking an image against its packages.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A note is missing or unreadable.
    #[error(transparent)]
    Chroot(#[from] ChrootError),
    /// A file of a package can't be read.
    #[error("cannot read {path} of the unpacked packages: {source}; build again")]
    Read {
        /// Path inside the guest.
        path: String,
        /// System error.
        source: std::io::Error,
    },
    /// A note of the bootstrap has an unexpected format.
    #[error("cannot make sense of the package list: {line:?}; is this dpkg very old or very new?")]
    Note {
        /// The line in question.
        line: String,
    },
    /// A downloaded package differs from apt's metadata.
    #[error(
        "package {package} has sha256 {found}, but apt's list says {expected}; the file is removed from the cache: build again"
    )]
    Download {
        /// The package.
        package: String,
        /// Digest of the file.
        found: String,
        /// Digest by apt's metadata.
        expected: String,
    },
    /// A file differs from its package's.
    #[error("{path} differs from the file in package {package}; the image would not be unmodified")]
    Modified {
        /// Path inside the guest.
        path: String,
        /// The package that has the file.
        package: String,
    },
    /// No package has a checksum for a file.
    #[error(
        "no package has a checksum for {path}; leave it out of the recipe or include it as a file of your own"
    )]
    Unknown {
        /// Path inside the guest.
        path: String,
    },
}

/// One package, pinned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Name, such as `libc6`.
    pub name: String,
    /// Version, such as `2.36-9+deb12u10`.
    pub version: String,
    /// SHA-256 of the package file in apt's own metadata, in hexadecimal.
    pub sha256: String,
}

/// A file of a source package, pinned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// Name of the file, which includes package and version.
    pub file: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// All packages of a chroot with their files' checksums.
#[derive(Debug)]
pub(crate) struct Packages {
    list: Vec<Package>,
    /// Path to MD5 and owning package (an index into `list`).
    sums: BTreeMap<String, (String, usize)>,
}

impl Packages {
    pub(crate) fn read(chroot: &Chroot) -> Result<Self, PackageError> {
        let text = |name: &str| note(chroot, name);
        let list = check_downloads(&text("packages")?, &text("apt-cache")?)?;
        let mut sums = BTreeMap::new();
        for (owner, package) in list.iter().enumerate() {
            for line in text(&format!("md5sums/{}", package.name))?.lines() {
                if let Some((sum, path)) = line.split_once("  ") {
                    sums.insert(format!("/{path}"), (sum.to_owned(), owner));
                }
            }
        }
        Ok(Self { list, sums })
    }

    /// Checks every file of `contents` that comes from a package, and marks its package in `used`.
    /// Returns the number of files checked.
    pub(crate) fn verify(
        &self,
        contents: &TreeContents,
        used: &mut Used,
    ) -> Result<u64, PackageError> {
        let mut count = 0;
        for (_, item) in contents.items() {
            let Item::File {
                data,
                origin: Origin::Package(path),
                ..
            } = item
            else {
                continue;
            };
            self.verify_file(path, data, used)?;
            count += 1;
        }
        Ok(count)
    }

    /// Checks one file against its package.
    pub(crate) fn verify_file(
        &self,
        path: &str,
        data: &Data,
        used: &mut Used,
    ) -> Result<(), PackageError> {
        let (sum, owner) = self.sums.get(path).ok_or_else(|| PackageError::Unknown {
            path: path.to_owned(),
        })?;
        let found = data.md5().map_err(|source| PackageError::Read {
            path: path.to_owned(),
            source,
        })?;
        if found != *sum {
            let package = self.list[*owner].name.clone();
            return Err(PackageError::Modified {
                path: path.to_owned(),
                package,
            });
        }
        used.0.insert(*owner, ());
        Ok(())
    }

    /// The packages with files in the image, and the packages that were only needed to build it.
    pub(crate) fn split(&self, used: &Used) -> (Vec<Package>, Vec<Package>) {
        let each = self.list.iter().cloned().enumerate();
        let (image, builder): (Vec<_>, Vec<_>) =
            each.partition(|(owner, _)| used.0.contains_key(owner));
        let sorted = |packages: Vec<(usize, Package)>| {
            let mut packages: Vec<Package> =
                packages.into_iter().map(|(_, package)| package).collect();
            packages.sort();
            packages
        };
        (sorted(image), sorted(builder))
    }
}

/// The packages that have at least one file in the image.
#[derive(Debug, Default)]
pub(crate) struct Used(BTreeMap<usize, ()>);

/// The files of the source packages, as apt fetched and checked them.
pub(crate) fn source_files(
    chroot: &Chroot,
    packages: &[&str],
) -> Result<Vec<SourceFile>, PackageError> {
    let mut files = Vec::new();
    for package in packages {
        for line in note(chroot, &format!("source-{package}"))?.lines() {
            let (sha256, file) = line.split_once("  ").ok_or_else(|| PackageError::Note {
                line: line.to_owned(),
            })?;
            files.push(SourceFile {
                file: file.to_owned(),
                sha256: sha256.to_owned(),
            });
        }
    }
    files.sort();
    Ok(files)
}

/// The paths of a package that is taken whole, without its folders and documentation.
pub(crate) fn files(chroot: &Chroot, package: &str) -> Result<Vec<String>, PackageError> {
    let list = note(chroot, &format!("files/{package}"))?;
    let paths = list.lines().filter_map(|line| line.strip_prefix('.'));
    let paths = paths.filter(|path| !path.ends_with('/') && !bootstrap::is_documentation(path));
    Ok(paths.map(str::to_owned).collect())
}

fn note(chroot: &Chroot, name: &str) -> Result<String, PackageError> {
    let bytes = chroot.read(&format!("{NOTES}/{name}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses the list of packages and compares each digest with apt's metadata.
fn check_downloads(list: &str, apt_cache: &str) -> Result<Vec<Package>, PackageError> {
    let known = digests(apt_cache);
    let mut packages = Vec::new();
    for line in list.lines() {
        let [name, version, _, found] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(PackageError::Note {
                line: line.to_owned(),
            });
        };
        let expected = known
            .get(&(name.to_owned(), version.to_owned()))
            .ok_or_else(|| PackageError::Note {
                line: format!("{name} {version}: not in apt's list"),
            })?;
        if !expected.iter().any(|digest| digest == found) {
            return Err(PackageError::Download {
                package: name.to_owned(),
                found: found.to_owned(),
                expected: expected.join(" or "),
            });
        }
        packages.push(Package {
            name: name.to_owned(),
            version: version.to_owned(),
            sha256: found.to_owned(),
        });
    }
    packages.sort();
    Ok(packages)
}

/// Parses `apt-cache show`: package and version to SHA-256.
fn digests(apt_cache: &str) -> BTreeMap<(String, String), Vec<String>> {
    let mut all: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for stanza in apt_cache.split("\n\n") {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(sha256)) =
            (field("Package"), field("Version"), field("SHA256"))
        {
            all.entry((name, version)).or_default().push(sha256);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian::digest;

    const APT: &str = "Package: busybox\nVersion: 1.0\nDepends: x\nSHA256: aa\n\n\
                       Package: bash\nVersion: 5.2\nDescription: a shell\n SHA256: no\nSHA256: bb\n";

    #[test]
    fn downloads_are_held_against_apt_s_digests() {
        let good = check_downloads("busybox\t1.0\tamd64\taa\nbash\t5.2\tamd64\tbb\n", APT)
            .expect("agrees");
        let names: Vec<&str> = good.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["bash", "busybox"]);
        let other = check_downloads("bash\t5.2\tamd64\tcc\n", APT);
        assert!(matches!(other, Err(PackageError::Download { .. })));
        let absent = check_downloads("bash\t5.3\tamd64\tbb\n", APT);
        assert!(matches!(absent, Err(PackageError::Note { .. })));
        assert!(matches!(
            check_downloads("bash\n", APT),
            Err(PackageError::Note { .. })
        ));
    }

    fn packages() -> Packages {
        let package = |name: &str| Package {
            name: name.to_owned(),
            version: "1".to_owned(),
            sha256: "00".to_owned(),
        };
        let sums = BTreeMap::from([("/bin/a".to_owned(), (digest::md5(b"a"), 1))]);
        Packages {
            list: vec![package("gcc"), package("tools")],
            sums,
        }
    }

    #[test]
    fn every_file_of_a_package_must_be_the_package_s() {
        let file = |bytes: &[u8], origin| Item::File {
            data: Data::Bytes(bytes.to_vec()),
            executable: true,
            origin,
        };
        let ours = Origin::Ours;
        let package = |path: &str| Origin::Package(path.to_owned());
        let check = |item| {
            let mut contents = TreeContents::default();
            contents.insert("/x", item).expect("inserts");
            let mut used = Used::default();
            packages()
                .verify(&contents, &mut used)
                .map(|count| (count, packages().split(&used)))
        };
        let (count, (image, builder)) = check(file(b"a", package("/bin/a"))).expect("same");
        assert_eq!(
            (count, image[0].name.as_str(), builder[0].name.as_str()),
            (1, "tools", "gcc")
        );
        assert!(matches!(
            check(file(b"b", package("/bin/a"))),
            Err(PackageError::Modified { .. })
        ));
        assert!(matches!(
            check(file(b"a", package("/bin/b"))),
            Err(PackageError::Unknown { .. })
        ));
        assert_eq!(check(file(b"a", ours)).expect("ours is not checked").0, 0);
    }
}
