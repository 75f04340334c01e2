//! From package names to a chroot: mmdebstrap resolves and unpacks, a hook compiles what is ours.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::apt_sources;
use crate::command::{self, CommandError};
use crate::progress::Progress;
use crate::recipe::{Program, Recipe, Source};

/// The hook's text; `$1` is the chroot.
const HOOK: &str = include_str!("bootstrap.sh");

/// Why the chroot could not be made.
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
        /// What the system said.
        source: std::io::Error,
    },
}

/// Makes the chroot of `recipe` as a tar archive in `work` and gives its path. Compiled programs
/// lie under [`OUTPUT`] in it, notes about the packages under [`NOTES`].
pub(crate) fn run(
    recipe: &Recipe,
    work: &Path,
    report: &mut dyn FnMut(Progress),
) -> Result<PathBuf, BootstrapError> {
    let input = work.join("input.tar");
    write_input(recipe, &input).map_err(|source| BootstrapError::Write {
        path: input.clone(),
        source,
    })?;
    let list = work.join("sources.list");
    fs::write(&list, apt_sources::list(&recipe.spec().suite)?).map_err(|source| {
        BootstrapError::Write {
            path: list.clone(),
            source,
        }
    })?;
    let archive = work.join("chroot.tar");
    let mut mmdebstrap = command::new("mmdebstrap");
    // Packages are unpacked and not configured: maintainer scripts change nothing, and no file
    // differs from the package it came in.
    mmdebstrap
        .arg("--variant=extract")
        .arg("--format=tar")
        .arg(format!("--architectures={}", recipe.spec().architecture))
        .arg(format!("--include={}", packages(recipe).join(",")))
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
    command::run(&mut mmdebstrap, &mut |line| {
        report(Progress::Detail(line.to_owned()))
    })?;
    Ok(archive)
}

/// Folder of the chroot in which compiled files lie, each under its path in the guest.
pub(crate) const OUTPUT: &str = "/belljar/out";

/// Folder of the chroot with the hook's notes.
pub(crate) const NOTES: &str = "/belljar/notes";

fn packages(recipe: &Recipe) -> Vec<&str> {
    let spec = recipe.spec();
    std::iter::once(&spec.kernel.package)
        .chain(&spec.userland.packages)
        .chain(&spec.builder.packages)
        .map(String::as_str)
        .collect()
}

fn write_input(recipe: &Recipe, path: &Path) -> std::io::Result<()> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    files.insert("bootstrap.sh".to_owned(), HOOK.as_bytes().to_vec());
    files.insert("sources".to_owned(), sources(recipe).into_bytes());
    files.insert("build.sh".to_owned(), build_script(recipe).into_bytes());
    for (name, bytes) in recipe.files() {
        files.insert(format!("files/{name}"), bytes.clone());
    }
    let mut archive = tar::Builder::new(File::create(path)?);
    for (name, bytes) in &files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("belljar/in/{name}"), bytes.as_slice())?;
    }
    archive.into_inner()?.sync_all()
}

fn sources(recipe: &Recipe) -> String {
    recipe
        .spec()
        .source
        .iter()
        .map(|source| format!("{}\n", source.package))
        .collect()
}

/// The script that compiles inside the chroot. All names in it have been checked by the recipe.
fn build_script(recipe: &Recipe) -> String {
    let mut script = String::from("export LC_ALL=C SOURCE_DATE_EPOCH=0\n");
    for program in &recipe.spec().program {
        compile(&mut script, program);
    }
    for source in &recipe.spec().source {
        build_package(&mut script, source);
    }
    script
}

fn compile(script: &mut String, program: &Program) {
    let Program {
        source,
        path,
        compiler,
        flags,
        libraries,
    } = program;
    let quoted = |words: &[String]| {
        words
            .iter()
            .map(|word| format!(" '{word}'"))
            .collect::<String>()
    };
    let (flags, libraries) = (quoted(flags), quoted(libraries));
    let folder = path.rfind('/').map_or("", |end| &path[..end]);
    let _ = writeln!(
        script,
        "echo 'compiling {source}' >&2; mkdir -p '{OUTPUT}{folder}'"
    );
    // From the folder of the inputs, so that no path of the chroot reaches the binary.
    let _ = writeln!(
        script,
        "(cd /belljar/in/files && {compiler}{flags} -o '{OUTPUT}{path}' '{source}'{libraries} && strip '{OUTPUT}{path}')"
    );
}

fn build_package(script: &mut String, source: &Source) {
    let Source {
        package,
        script: build,
        outputs,
        ..
    } = source;
    let _ = writeln!(script, "echo 'building source package {package}' >&2");
    for output in outputs {
        let folder = output.rfind('/').map_or("", |end| &output[..end]);
        let _ = writeln!(script, "mkdir -p '{OUTPUT}{folder}'");
    }
    let _ = writeln!(
        script,
        "(cd '/belljar/src/{package}' && mkdir tree && tar -xf *.orig.tar.* -C tree --strip-components=1 && cd tree && \
         FILES=/belljar/in/files DESTDIR={OUTPUT} sh -eu '/belljar/in/files/{build}' >/belljar/build.log 2>&1) \
         || {{ tail -n 40 /belljar/build.log >&2; exit 1; }}"
    );
}
