//! The Python package: built as a wheel, installed into a separate environment, and tested there.
//!
//! The environment is in the target folder, with the packages that `python/tests/requirements.txt` names. Called by `groups`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell;

/// The packages of the tests.
const REQUIREMENTS: &str = "python/tests/requirements.txt";

/// The environment's Python, made if it is missing; `None`, with a message, if that fails.
pub(crate) fn environment() -> Option<PathBuf> {
    let folder = shell::target().join("python");
    let python = folder.join("bin/python");
    let made = (|| -> Result<()> {
        if !python.exists() {
            shell::run("python3", &["-m", "venv", &folder.to_string_lossy()])?;
        }
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ];
        shell::run(
            &python.to_string_lossy(),
            &[&pip[..], &["-r", REQUIREMENTS]].concat(),
        )
    })();
    match made {
        Ok(()) => Some(python),
        Err(error) => {
            eprintln!("SKIPPED: tests by Python packages: {error:#}");
            None
        }
    }
}

/// A run with a trace in the tree.
const RUN: &str = "tests/frozen/runs/allreduce";

/// Reads a table by the package, without an installed Rust.
const READ: &str = "
import shutil, sys, belljar
assert not shutil.which('cargo') and not shutil.which('rustc'), 'Rust is on the PATH'
assert belljar.open(sys.argv[1]).calls('rank').columns == ['rank']
";

/// Installs the wheel into a new environment and reads a trace, without Rust on the `PATH` and without a network.
fn without_rust(wheel: &Path) -> Result<()> {
    let folder = shell::target().join("python-plain");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    shell::run("python3", &["-m", "venv", &folder.to_string_lossy()])?;
    let bin = folder.join("bin");
    let python = bin.join("python").to_string_lossy().into_owned();
    let alone = [("PATH", &*bin.to_string_lossy())];
    let install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"];
    let wheel = wheel.to_string_lossy();
    shell::run_with(&python, &[&install[..], &[&*wheel]].concat(), &alone)?;
    let run = crate::root().join(RUN);
    shell::run_with(&python, &["-c", READ, &run.to_string_lossy()], &alone)
}

/// Builds, installs and tests the package, with this `belljar`.
pub(crate) fn test(python: &Path, belljar: &str) -> Result<()> {
    let wheels = shell::target().join("wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels)?;
    }
    let maturin = python.with_file_name("maturin");
    let out = wheels.to_string_lossy();
    let build = [
        "build",
        "--quiet",
        "--profile",
        "dev",
        "--manifest-path",
        "python/Cargo.toml",
        "--out",
        &out,
    ];
    shell::run(&maturin.to_string_lossy(), &build)?;
    let wheel = std::fs::read_dir(&wheels)?
        .next()
        .context("maturin made no wheel")??;
    let program = python.to_string_lossy();
    let wheel = wheel.path();
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--force-reinstall",
        "--no-deps",
        &wheel.to_string_lossy(),
    ];
    shell::run(&program, &install)?;
    without_rust(&wheel)?;
    for tests in ["test_package", "test_notebook"] {
        let file = format!("python/tests/{tests}.py");
        shell::run_with(&program, &[&file], &[("BELLJAR", belljar)])?;
    }
    Ok(())
}
