//! From packages to a chroot: mmdebstrap resolves and unpacks packages, and a hook compiles the project's
//! and the user's programs.
//!
//! The chroot is a tar archive that is not unpacked on the host; notes in it have dpkg's and apt's
//! metadata. Called once for each build.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{self, CommandError};
use crate::debian::apt_sources;
use crate::debian::fetch::Fetched;
use crate::progress::BuildProgress;
use crate::recipe::pattern::literal_part;
use crate::recipe::{Recipe, Spec};

/// Input of the chroot: hook, files, source packages and script.
mod input;

pub(crate) use input::{OUTPUT, output_folder};

/// An error of making the chroot.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file of the work folder can't be written.
    #[error("cannot write {path}: {source}; make room or rights for it and build again")]
    Write {
        /// The file.
        path: PathBuf,
        /// System error.
        source: std::io::Error,
    },
}

/// Folder of the chroot with the hook's notes.
pub(crate) const NOTES: &str = "/belljar/notes";

/// Large folders that few images need: documentation, and files for compilers.
const DOCUMENTATION: [&str; 3] = ["/usr/share/doc", "/usr/share/man", "/usr/share/locale"];
const COMPILERS: [&str; 3] = ["/usr/include", "/usr/lib/gcc", "/usr/share/perl"];

/// Makes the chroot of `recipe` as a tar archive in `work` and returns its path. Compiled programs are
/// under [`OUTPUT`] in it, notes about the packages under [`NOTES`].
pub(crate) fn run(
    recipe: &Recipe,
    fetched: &Fetched,
    work: &Path,
    report: &mut dyn FnMut(BuildProgress),
) -> Result<PathBuf, BootstrapError> {
    let write = |path: &Path, source| BootstrapError::Write {
        path: path.to_owned(),
        source,
    };
    let input = work.join("input.tar");
    input::write(recipe, fetched, &input).map_err(|source| write(&input, source))?;
    let list = work.join("sources.list");
    let sources = apt_sources::list(&recipe.spec().suite, &["deb"])?;
    fs::write(&list, sources).map_err(|source| write(&list, source))?;
    let archive = work.join("chroot.tar");
    let mut mmdebstrap = command::new("mmdebstrap");
    // Packages are unpacked and not configured: maintainer scripts change nothing, and no file
    // differs from the package it came in.
    mmdebstrap
        .arg("--variant=extract")
        .arg("--format=tar")
        .arg(format!("--architectures={}", recipe.spec().architecture))
        .arg(format!("--include={}", packages(recipe).join(",")))
        .arg("--setup-hook=mkdir -p \"$1/var/cache/apt/archives\"")
        .arg(format!(
            "--setup-hook=sync-in {} /var/cache/apt/archives",
            command::quoted(&fetched.packages)
        ))
        .arg(format!(
            "--extract-hook=tar-in {} /",
            command::quoted(&input)
        ))
        // From inside the chroot: in a user namespace the work folder may be out of reach.
        .arg("--extract-hook=sh \"$1/belljar/in/bootstrap.sh\" \"$1\"")
        .args(apt_sources::options())
        .arg(&recipe.spec().suite)
        .arg(&archive)
        .arg(&list);
    // Unpacked packages may be large, and the folder of temporary files may be in memory. Users other than
    // root unpack in a user namespace, which may have no access to the work folder.
    if command::is_root() && std::env::var_os("TMPDIR").is_none() {
        mmdebstrap.env("TMPDIR", work);
    }
    command::run(&mut mmdebstrap, &mut |line| {
        report(BuildProgress::Detail(line.to_owned()))
    })
    .map_err(|error| error.without(is_wrapper))?;
    // Both are in the archive now, or no longer needed.
    for path in [&input, &fetched.packages] {
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
    }
    Ok(archive)
}

/// True for a line of mmdebstrap about its own failure, as opposed to output of the command that failed.
fn is_wrapper(line: &str) -> bool {
    const ABOUT: [&str; 6] = [
        "I: ",
        "E: command failed: ",
        "E: setup failed: ",
        "E: mmdebstrap failed",
        "W: hook listener hasn't",
        "E: received ",
    ];
    ABOUT.iter().any(|start| line.starts_with(start))
}

/// The packages for the image and for building.
pub(crate) fn packages(recipe: &Recipe) -> Vec<&str> {
    let spec = recipe.spec();
    std::iter::once(&spec.kernel.package)
        .chain(&spec.userland.packages)
        .chain(&spec.userland.whole)
        .chain(&spec.builder.packages)
        .map(String::as_str)
        .collect()
}

/// The folders that are removed from the chroot, because the recipe can name nothing in them.
fn dropped(spec: &Spec) -> Vec<&'static str> {
    let userland = &spec.userland;
    let patterns = || {
        let userland = userland.files.iter().chain(&userland.optional);
        userland.chain(&spec.initramfs.files)
    };
    let compilers = COMPILERS.into_iter().filter(|_| userland.whole.is_empty());
    DOCUMENTATION
        .into_iter()
        .chain(compilers)
        .filter(|folder| !patterns().any(|pattern| may_reach(pattern, folder)))
        .collect()
}

/// True if a pattern may match a path in a folder.
fn may_reach(pattern: &str, folder: &str) -> bool {
    let start = literal_part(pattern);
    let start = start.strip_suffix('/').unwrap_or(start);
    let inside = |path: &str, folder: &str| {
        path.strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    inside(start, folder) || inside(folder, start)
}

/// True if a path of a package is documentation.
pub(crate) fn is_documentation(path: &str) -> bool {
    DOCUMENTATION.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_a_recipe_names_are_kept() {
        assert!(may_reach("/usr/include/stdio.h", "/usr/include"));
        assert!(may_reach("/usr/include", "/usr/include") && may_reach("/usr", "/usr/include"));
        assert!(may_reach("/usr/**/*.h", "/usr/include"));
        assert!(!may_reach("/usr/includes/x", "/usr/include"));
        assert!(!may_reach("/usr/bin/*", "/usr/include"));
    }

    #[test]
    fn the_last_words_are_not_mmdebstrap_s() {
        assert!(is_wrapper("I: removing tempdir ..."));
        assert!(is_wrapper(
            "E: setup failed: E: command failed: sh \"$1/x\""
        ));
        assert!(!is_wrapper("E: Unable to locate package none"));
        assert!(!is_wrapper("hello.c:1:1: error: unknown type name"));
    }
}
