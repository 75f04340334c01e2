//! `cargo xtask demo`: from nothing to a traced run.
//!
//! Runs the commands that a user would, one after another, and ends at the first that fails. The last line that the run prints says where its report is. Called by
//! `main`.

use anyhow::{Context, Result};

use crate::packages::{self, BUILD};
use crate::shell;

/// Everything from nothing to a traced run of High Performance Linpack.
pub(crate) fn run() -> Result<()> {
    packages::ensure(&[BUILD])?;
    let binary = shell::build_belljar(shell::Profile::Release)?;
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
