//! The files that a process can still open while guests run: a Landlock domain of all its
//! threads.
//!
//! Open files stay usable. Without Landlock in the host's kernel, no file is denied. A domain
//! never widens; a further one in the same process can only restrict more.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, make_bitflags,
};

use super::SandboxError;
use super::threads;
use crate::results::run_directory::RunDirectory;

/// The rights that are denied unless a rule grants them. Older kernels support fewer.
const KNOWN: ABI = ABI::V5;

/// The paths that stay accessible to a process; the default has none, so only open files remain.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    renaming: Vec<PathBuf>,
}

impl Reach {
    /// Open files only.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Adds reading of everything beneath `path`.
    #[must_use]
    pub fn reading(mut self, path: &Path) -> Self {
        self.readable.push(path.to_owned());
        self
    }

    /// Adds everything beneath the folder `path`, except devices, sockets and execution.
    #[must_use]
    pub fn writing(mut self, path: &Path) -> Self {
        self.writable.push(path.to_owned());
        self
    }

    /// Adds renaming and removal of folders in the folder `path`, as Landlock has no rule for a
    /// folder's own name.
    #[must_use]
    pub fn renaming_in(mut self, path: &Path) -> Self {
        self.renaming.push(path.to_owned());
        self
    }

    /// Denies all other files to all threads of this process, for good.
    ///
    /// # Errors
    /// If one of its paths cannot be opened, or the kernel refuses.
    pub(super) fn close(&self) -> Result<(), SandboxError> {
        match self.ruleset()? {
            Some(ruleset) => threads::restrict_all(ruleset.as_fd()),
            None => Ok(()),
        }
    }

    /// The kernel's file descriptor of the ruleset; `None` without Landlock.
    fn ruleset(&self) -> Result<Option<OwnedFd>, SandboxError> {
        let all = AccessFs::from_all(KNOWN);
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let mut ruleset = ruleset.handle_access(all)?.create()?;
        let reading = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        let writing = make_bitflags!(AccessFs::{
            WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir
        });
        // Renaming a folder means making and removing one; the folder is read for syncing.
        let renaming = make_bitflags!(AccessFs::{ReadDir | MakeDir | RemoveDir});
        for (paths, access) in [
            (&self.readable, reading),
            (&self.writable, reading | writing),
            (&self.renaming, renaming),
        ] {
            for path in paths {
                ruleset = allow(ruleset, path, access)?;
            }
        }
        Ok(ruleset.into())
    }
}

impl RunDirectory {
    /// The files that a run opens while guests run, and at its end: the files of its directory,
    /// and the directory's name.
    pub fn reach(&self) -> Reach {
        let above = self.path().parent().filter(|above| *above != Path::new(""));
        Reach::nothing()
            .writing(self.path())
            .renaming_in(above.unwrap_or(Path::new(".")))
    }
}

fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, SandboxError> {
    let opened = PathFd::new(path).map_err(|source: PathFdError| SandboxError::Reach {
        path: path.to_owned(),
        source,
    })?;
    let rule = PathBeneath::new(opened, access);
    Ok(ruleset.add_rule(rule)?)
}

/// True if the host's kernel has Landlock.
///
/// # Errors
/// If the kernel has it and refuses.
pub(super) fn is_known() -> Result<bool, RulesetError> {
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1))?;
    let ruleset: Option<OwnedFd> = ruleset.create()?.into();
    Ok(ruleset.is_some())
}
