//! `cargo xtask demo`: from nothing to a traced run.
//!
//! Runs the commands of a user, one after another, and stops at the first that fails. The last printed line has the path of the
//! report. Called by `main`.

use anyhow::{Context, Result};

use crate::packages::{self, BUILD};
use crate::shell;

/// Runs everything from nothing to a traced run of High Performance Linpack.
pub(crate) fn run() -> Result<()> {
    packages::ensure(&[BUILD])?;
    let binary = shell::build_belljar(shell::BuildProfile::Release)?;
    let binary = binary
        .to_str()
        .context("the target folder's path is not text")?;
    shell::run(
        binary,
        &[
            "image",
            "build",
            "--keep-lock",
            "images/bookworm-mpich.toml",
        ],
    )?;
    shell::run(binary, &["run", "scenarios/hpl-4.toml", "--report"])
}
