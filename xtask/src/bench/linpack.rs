//! Linpack on one node: its input, and the image's binary on the host itself.
//!
//! The host runs the binary with the image's own libraries and loader. `kvm` and `realism` compare nodes with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Bench;

/// Writes the input of one process with a matrix of this order into `folder`.
pub(super) fn input(folder: &Path, order: u32) -> Result<PathBuf> {
    let input = fs::read_to_string(crate::root().join("scenarios/hpl/HPL.dat"))?;
    let line = |line: &str| match line.split_whitespace().last() {
        Some("Ns") => format!("{order} Ns"),
        Some("Ps") => "1 Ps".to_owned(),
        Some("Qs") => "1 Qs".to_owned(),
        _ => line.to_owned(),
    };
    let lines: Vec<String> = input.lines().map(line).collect();
    fs::create_dir_all(folder)?;
    let path = folder.join("HPL.dat");
    fs::write(&path, lines.join("\n") + "\n")?;
    Ok(path)
}

/// Linpack natively on the host.
pub(super) struct Bare {
    root: PathBuf,
}

impl Bare {
    /// Unpacks the image's files.
    pub(super) fn unpack(bench: &Bench) -> Result<Self> {
        let root = bench.folder.join("root");
        let unpacked = Command::new("fsck.erofs")
            .arg(format!("--extract={}", root.display()))
            .args(["--no-preserve-owner", "--no-preserve-perms"])
            .arg(bench.image.join("root.erofs"))
            .output()
            .context("cannot start fsck.erofs, of the package erofs-utils")?;
        if !unpacked.status.success() {
            bail!(
                "fsck.erofs cannot unpack the image: {}",
                String::from_utf8_lossy(&unpacked.stderr)
            );
        }
        Ok(Self { root })
    }

    /// The command, for a folder with the input; `starter` starts the loader, if it is given. Its kernels are those of
    /// OpenBLAS for the processor `kernels`.
    pub(super) fn command(
        &self,
        starter: Option<&mut Command>,
        kernels: &str,
        folder: &Path,
    ) -> Result<Command> {
        let folders = [
            "lib/x86_64-linux-gnu",
            "usr/lib/x86_64-linux-gnu",
            "usr/lib/x86_64-linux-gnu/openblas-serial",
        ]
        .map(|folder| self.root.join(folder));
        let loader = folders[0].join("ld-linux-x86-64.so.2");
        let mut linpack = match starter {
            None => Command::new(loader),
            Some(starter) => {
                let mut command = Command::new(starter.get_program());
                command.args(starter.get_args()).arg(loader);
                command
            }
        };
        linpack
            .arg("--library-path")
            .arg(std::env::join_paths(&folders)?)
            .arg(self.root.join("usr/local/bin/xhpl"))
            .env("OPENBLAS_CORETYPE", kernels)
            .current_dir(folder);
        Ok(linpack)
    }
}
