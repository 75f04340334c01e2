//! `cargo xtask package`: a Debian package of Belljar, `target/package/belljar.deb`.
//!
//! The binary itself generates the package's manual pages and completions. `cargo deb` assembles it, by `cli/Cargo.toml`. Called
//! by `main`, and by the tests of installing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::packages::{self, BUILD};
use crate::shell::{self, BuildProfile};

/// Folders of completions, by shell, and the names of the files.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "belljar.bash"),
    ("zsh", "_belljar"),
    ("fish", "belljar.fish"),
];

/// Builds the package.
pub(crate) fn run() -> Result<()> {
    packages::ensure(&[BUILD])?;
    if !installed() {
        let cargo = shell::cargo();
        shell::run(&cargo, &["install", "cargo-deb", "--locked", "--quiet"])?;
    }
    let binary = shell::build_belljar(BuildProfile::Release)?;
    let package = package(&binary, &[])?;
    println!("{}", package.display());
    Ok(())
}

/// True if `cargo deb` is installed.
pub(crate) fn installed() -> bool {
    let mut asked = Command::new(shell::cargo());
    asked.args(["deb", "--version"]);
    asked.stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}

/// Packs a binary for tests, with less compression.
pub(crate) fn for_tests(binary: &Path) -> Result<PathBuf> {
    package(binary, &["--fast"])
}

/// Packs this binary, with additional arguments for `cargo deb`.
fn package(binary: &Path, more: &[&str]) -> Result<PathBuf> {
    let folder = shell::target().join("package");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let own = folder.join("belljar");
    fs::copy(binary, &own).with_context(|| format!("cannot copy {}", binary.display()))?;
    let belljar = own.to_string_lossy();
    shell::run(
        &belljar,
        &["man", "--out", &folder.join("man").to_string_lossy()],
    )?;
    for (shell, file) in COMPLETIONS {
        let script = Command::new(&own).args(["completions", shell]).output()?;
        if !script.status.success() {
            bail!("belljar completions {shell}: {}", script.status);
        }
        fs::write(folder.join(file), script.stdout)?;
    }
    let package = folder.join("belljar.deb");
    let out = package.to_string_lossy();
    let words = [
        "deb",
        "--no-build",
        "--package",
        "belljar-cli",
        "--output",
        &out,
    ];
    shell::run(&shell::cargo(), &[&words, more].concat())?;
    Ok(package)
}
