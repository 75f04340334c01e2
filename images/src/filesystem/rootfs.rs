//! The root file system: a file tree as an uncompressed, read-only EROFS image.
//!
//! Equal trees give equal bytes: owners, times, modes and the UUID are fixed, not the host's.
//! `assemble` stages a tree and has it written.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::command::{self, CommandError};
use crate::filesystem::contents::{Item, TreeContents};
use crate::progress::BuildProgress;

/// The same for all images, so that equal trees give equal bytes.
const UUID: &str = "be11a200-0000-4000-8000-000000000001";

/// An error of writing the root file system.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// A file can't be staged for mkfs.erofs.
    #[error("cannot lay out {path} for the root file system: {source}; make room or rights for it")]
    Stage {
        /// Path on the host.
        path: PathBuf,
        /// System error.
        source: std::io::Error,
    },
    /// mkfs.erofs failed.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// Stages `contents` in `work`, and returns the folder.
pub(crate) fn stage(contents: &TreeContents, work: &Path) -> Result<PathBuf, RootError> {
    let stage = work.join("root");
    stage_all(contents, &stage)?;
    Ok(stage)
}

/// Writes the staged tree in `stage` as an EROFS image to `image`.
pub(crate) fn write(
    stage: &Path,
    image: &Path,
    report: &mut dyn FnMut(BuildProgress),
) -> Result<(), RootError> {
    let mut mkfs = command::new("mkfs.erofs");
    mkfs.args(["--quiet", "--all-root", "-T0", "-x-1", "-U", UUID])
        .arg(image)
        .arg(stage);
    command::run(&mut mkfs, &mut |line| {
        report(BuildProgress::Detail(line.to_owned()))
    })?;
    Ok(())
}

fn stage_all(contents: &TreeContents, stage: &Path) -> Result<(), RootError> {
    let at = |path: &Path, source| RootError::Stage {
        path: path.to_owned(),
        source,
    };
    make_folder(stage).map_err(|source| at(stage, source))?;
    for (path, item) in contents.items() {
        let target = stage.join(path.trim_start_matches('/'));
        let made = match item {
            Item::Directory => make_folder(&target),
            Item::Link(text) => symlink(text, &target),
            Item::File {
                data, executable, ..
            } => {
                let mode = if *executable { 0o755 } else { 0o644 };
                File::create(&target)
                    .and_then(|mut file| data.copy_to(&mut file))
                    .and_then(|()| set_mode(&target, mode))
            }
        };
        made.map_err(|source| at(&target, source))?;
    }
    Ok(())
}

fn make_folder(path: &Path) -> std::io::Result<()> {
    fs::create_dir(path)?;
    set_mode(path, 0o755)
}

/// Sets the mode regardless of the caller's umask.
fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
