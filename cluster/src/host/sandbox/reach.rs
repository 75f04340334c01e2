//! The files that a process can still open once guests run: a Landlock domain of all its threads.
//!
//! What is open stays open. Where the host's kernel knows no Landlock, nothing is taken away. A
//! domain never gets wider again; another one in the same process can only take more.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, make_bitflags,
};

use super::SandboxError;
use super::threads;
use crate::results::run_directory::RunDirectory;

/// The rights that are taken away where no rule gives them. Kernels that know fewer take fewer.
const KNOWN: ABI = ABI::V5;

/// What stays open to a process; without any of it, only what is open already.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    renaming: Vec<PathBuf>,
}

impl Reach {
    /// Files that are open already, and nothing else.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// As it is, and reading everything beneath `path`.
    #[must_use]
    pub fn reading(mut self, path: &Path) -> Self {
        self.readable.push(path.to_owned());
        self
    }

    /// As it is, and everything beneath the folder `path` but devices, sockets and execution.
    #[must_use]
    pub fn writing(mut self, path: &Path) -> Self {
        self.writable.push(path.to_owned());
        self
    }

    /// As it is, and new names and ends for folders that stand in the folder `path`: Landlock
    /// has no rule for a folder's own name.
    #[must_use]
    pub fn renaming_in(mut self, path: &Path) -> Self {
        self.renaming.push(path.to_owned());
        self
    }

    /// Takes from all threads of this process, for good, every other file.
    ///
    /// # Errors
    /// When a path of it can't be opened or the kernel refuses.
    pub(super) fn close(&self) -> Result<(), SandboxError> {
        match self.ruleset()? {
            Some(ruleset) => threads::restrict_all(ruleset.as_fd()),
            None => Ok(()),
        }
    }

    /// The kernel's description of it; None where it knows no Landlock.
    fn ruleset(&self) -> Result<Option<OwnedFd>, SandboxError> {
        let all = AccessFs::from_all(KNOWN);
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let mut ruleset = ruleset.handle_access(all)?.create()?;
        let reading = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        let writing = make_bitflags!(AccessFs::{
            WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir
        });
        // To rename a folder is to make and to remove one; and it is read to be synced.
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
    /// The files that a run opens while guests run, and at its end: its own, and the folder's
    /// name.
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

/// Whether the host's kernel keeps processes from files.
///
/// # Errors
/// When it knows how and refuses.
pub(super) fn is_known() -> Result<bool, RulesetError> {
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1))?;
    let ruleset: Option<OwnedFd> = ruleset.create()?.into();
    Ok(ruleset.is_some())
}
