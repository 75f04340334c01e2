//! Fetches packages into a folder that is kept across builds, so a build can reuse a failed one's downloads.
//! apt works in that folder alone, with the host's mirrors and keys, and checks its downloads; nothing is
//! installed. Called at the beginning of a build; a lock keeps other builds out of the folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, CommandError};
use crate::debian::apt_sources;
use crate::progress::BuildProgress;
use crate::recipe::Recipe;

/// An error of fetching packages.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// apt failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file or folder can't be written.
    #[error("cannot write {path}: {source}; make room or rights for it and build again")]
    Write {
        /// The file.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
}

/// Fetched packages and sources.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// A folder with the packages, and nothing else.
    pub(crate) packages: PathBuf,
    /// The files of each source package, by its name.
    pub(crate) sources: Vec<(String, Vec<PathBuf>)>,
}

/// apt, set up for one recipe.
pub(crate) struct Apt<'a> {
    recipe: &'a Recipe,
    work: &'a Path,
    /// The folder that is kept.
    folder: &'a Path,
    /// Lock that keeps other processes out of the folder.
    _lock: File,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> FetchError {
    let path = path.to_owned();
    move |source| FetchError::Write { path, source }
}

fn make(folder: &Path) -> Result<(), FetchError> {
    fs::create_dir_all(folder).map_err(at(folder))
}

impl<'a> Apt<'a> {
    /// Sets apt up in `folder` and updates its lists from the mirrors.
    pub(crate) fn new(
        recipe: &'a Recipe,
        work: &'a Path,
        folder: &'a Path,
        report: &mut dyn FnMut(BuildProgress),
    ) -> Result<Self, FetchError> {
        make(folder)?;
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(at(&path))?;
        lock.lock().map_err(at(&path))?;
        let apt = Self {
            recipe,
            work,
            folder,
            _lock: lock,
        };
        let suite = apt.suite();
        for folder in [
            suite.join("state/lists/partial"),
            suite.join("cache"),
            folder.join("archives/partial"),
            folder.join("sources"),
            work.join("none/partial"),
            work.join("packages"),
        ] {
            make(&folder)?;
        }
        let status = suite.join("status");
        fs::write(&status, "").map_err(at(&status))?;
        let list = apt.work.join("fetch.list");
        let kinds = match recipe.source_packages().next() {
            Some(_) => &["deb", "deb-src"][..],
            None => &["deb"],
        };
        fs::write(&list, apt_sources::list(&recipe.spec().suite, kinds)?).map_err(at(&list))?;
        let settings = apt.settings();
        fs::write(&settings, apt.configuration()).map_err(at(&settings))?;
        let mut update = apt.get();
        // A list that cannot be fetched is an error; an old list is not used.
        update.args(["-oAPT::Update::Error-Mode=any", "update"]);
        command::run(&mut update, &mut |line| {
            report(BuildProgress::Detail(line.to_owned()));
        })?;
        Ok(apt)
    }

    /// The names of the package files that the recipe takes now, without fetching them.
    pub(crate) fn names(&self, packages: &[&str]) -> Result<Vec<String>, FetchError> {
        let none = self.work.join("none");
        let mut apt = self.get();
        apt.arg(format!("-oDir::Cache::archives={}", none.display()))
            .args(["--print-uris", "install"])
            .args(packages);
        Ok(file_names(&command::output(&mut apt)?))
    }

    /// Fetches packages and source packages that are not in the folder yet.
    pub(crate) fn fetch(
        &self,
        packages: &[&str],
        report: &mut dyn FnMut(BuildProgress),
    ) -> Result<Fetched, FetchError> {
        let names = self.names(packages)?;
        let mut apt = self.get();
        apt.args(["--download-only", "install"]).args(packages);
        command::run(&mut apt, &mut |line| {
            report(BuildProgress::Detail(line.to_owned()));
        })?;
        let wanted = self.work.join("packages");
        for name in names {
            let from = self.folder.join("archives").join(&name);
            // apt does not copy packages of a repository on this host (`file:`).
            if from.exists() {
                link(&from, &wanted.join(&name))?;
            }
        }
        let mut sources = Vec::new();
        for package in self.recipe.source_packages() {
            sources.push((package.to_owned(), self.source(package, report)?));
        }
        Ok(Fetched {
            packages: wanted,
            sources,
        })
    }

    /// Only upstream's archive: Debian's additions to it are for packaging.
    fn source(
        &self,
        package: &str,
        report: &mut dyn FnMut(BuildProgress),
    ) -> Result<Vec<PathBuf>, FetchError> {
        let kind = ["source", "--download-only", "--tar-only"];
        let mut print = self.get();
        print
            .current_dir(self.work.join("none"))
            .args(kind)
            .args(["--print-uris", package]);
        let names = file_names(&command::output(&mut print)?);
        let folder = self.folder.join("sources");
        let mut apt = self.get();
        apt.current_dir(&folder).args(kind).arg(package);
        command::run(&mut apt, &mut |line| {
            report(BuildProgress::Detail(line.to_owned()));
        })?;
        Ok(names.iter().map(|name| folder.join(name)).collect())
    }

    fn suite(&self) -> PathBuf {
        self.folder.join("apt").join(&self.recipe.spec().suite)
    }

    fn settings(&self) -> PathBuf {
        self.work.join("fetch.conf")
    }

    fn get(&self) -> Command {
        let mut apt = command::new("apt-get");
        apt.env("APT_CONFIG", self.settings())
            .args(["-qq", "--yes"]);
        apt
    }

    /// Settings of apt, with the host's only for access to its mirrors.
    fn configuration(&self) -> String {
        let suite = self.suite();
        let suite = suite.display();
        let archives = self.folder.join("archives");
        let architecture = &self.recipe.spec().architecture;
        let mut text = format!(
            "Dir::State \"{suite}/state\";\nDir::State::status \"{suite}/status\";\n\
             Dir::Cache \"{suite}/cache\";\nDir::Cache::archives \"{archives}\";\n\
             Dir::Etc::main \"/dev/null\";\nDir::Etc::parts \"/dev/null\";\n\
             Dir::Etc::sourcelist \"{list}\";\nDir::Etc::sourceparts \"/dev/null\";\n\
             Dir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"/dev/null\";\n\
             Dir::Log \"{suite}/cache\";\nAPT::Architecture \"{architecture}\";\n\
             APT::Architectures {{ \"{architecture}\"; }};\nAPT::Install-Recommends \"false\";\n\
             APT::Get::AllowUnauthenticated \"false\";\nAPT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\nAcquire::Retries \"3\";\n",
            archives = archives.display(),
            list = self.work.join("fetch.list").display(),
        );
        for (key, value) in apt_sources::shared() {
            text.push_str(&format!("{key} \"{value}\";\n"));
        }
        text
    }
}

/// Removes a package's files from the folder of downloads, as far as possible.
pub(crate) fn forget(folder: &Path, package: &str) {
    let start = format!("{package}_");
    for file in fs::read_dir(folder.join("archives")).into_iter().flatten() {
        let Ok(file) = file else { continue };
        if file.file_name().to_string_lossy().starts_with(&start) {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Hard-links `from` as `to`, or copies it to another file system.
fn link(from: &Path, to: &Path) -> Result<(), FetchError> {
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).map(drop).map_err(at(to))
}

/// The file names in apt's list of downloads: `'URI' NAME SIZE SUM`.
fn file_names(uris: &str) -> Vec<String> {
    let lines = uris.lines().filter(|line| line.starts_with('\''));
    let name = |line: &str| {
        let name = line.split("' ").nth(1)?.split(' ').next()?;
        let plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        plain.then(|| name.to_owned())
    };
    lines.filter_map(name).collect()
}

/// Package and version from a package's file name, as apt names it.
pub(crate) fn name_and_version(file: &str) -> Option<(String, String)> {
    let mut parts = file.strip_suffix(".deb")?.split('_');
    let (name, version) = (parts.next()?, parts.next()?);
    let plain = version.replace("%3a", ":").replace("%5f", "_");
    Some((name.to_owned(), plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_s_lists_and_names_are_understood() {
        let uris = "'http://mirror.example/pool/g/gcc_12.2.0-3_amd64.deb' gcc_4%3a12.2.0-3_amd64.deb 5 SHA256:00\n\
                    'http://evil.example/x' ../x 5 SHA256:00\nReading package lists...\n";
        let names = file_names(uris);
        assert_eq!(names, ["gcc_4%3a12.2.0-3_amd64.deb"]);
        let expected = ("gcc".to_owned(), "4:12.2.0-3".to_owned());
        assert_eq!(name_and_version(&names[0]), Some(expected));
        assert_eq!(name_and_version("gcc.deb"), None);
    }

    #[test]
    fn a_damaged_package_is_forgotten_and_no_other() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let archives = folder.path().join("archives");
        fs::create_dir(&archives).expect("folder");
        for name in ["gcc_1_amd64.deb", "gcc_2_amd64.deb", "gcc-12_1_amd64.deb"] {
            fs::write(archives.join(name), "").expect("writes");
        }
        forget(folder.path(), "gcc");
        let left = fs::read_dir(&archives).expect("reads").count();
        assert!(left == 1 && archives.join("gcc-12_1_amd64.deb").exists());
        // A missing folder is accepted.
        forget(&folder.path().join("none"), "gcc");
    }
}
