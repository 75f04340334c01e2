//! Running other programs, and saying so.
//!
//! Each command line is printed before it runs, in the project's top folder, and one that fails is an
//! error. Called by all commands here.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program in the project's top folder; it must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    run_with(program, arguments, &[])
}

/// As [`run`], with more environment.
pub(crate) fn run_with(
    program: &str,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<()> {
    eprintln!("$ {program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(crate::root())
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} {} failed ({status})", arguments.join(" "));
    }
    Ok(())
}

/// As [`run`], with `name` before each line that the program writes: several may run at once.
pub(crate) fn run_named(name: &str, program: &str, arguments: &[&str]) -> Result<()> {
    eprintln!("$ {program} {}", arguments.join(" "));
    let (reader, writer) = std::io::pipe().context("the host has no pipe")?;
    let other = writer.try_clone().context("the host has no pipe")?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(crate::root());
    let child = command.stdout(writer).stderr(other).spawn();
    let mut child = child.with_context(|| format!("cannot start {program}"))?;
    // Its ends of the pipe: reading ends with the program's.
    drop(command);
    for line in BufReader::new(reader).lines() {
        eprintln!("{name}: {}", line.context("what it writes is no text")?);
    }
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for {program}"))?;
    if !status.success() {
        bail!("{program} {} failed ({status})", arguments.join(" "));
    }
    Ok(())
}

/// Cargo, as this was started by.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// What a program is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Tests: what the unit tests have built for the most part. It runs guests about as fast, as what guests run is
    /// made by the engine, and it checks itself for overflow.
    Dev,
    /// Use, and measurements.
    Release,
}

/// Builds `belljar` and tells where it is.
pub(crate) fn build_belljar(profile: Profile) -> Result<PathBuf> {
    let (options, folder): (&[&str], _) = match profile {
        Profile::Dev => (&[], "debug"),
        Profile::Release => (&["--release"], "release"),
    };
    let arguments = [&["build", "--package", "belljar-cluster"], options].concat();
    run(&cargo(), &arguments)?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| crate::root().join("target"), PathBuf::from);
    let binary = target.join(folder).join("belljar");
    if !binary.exists() {
        bail!("{} was not built", binary.display());
    }
    Ok(binary)
}

/// Builds those tests of `package` that `target` chooses and tells where their program is.
pub(crate) fn test_program(package: &str, target: &[&str]) -> Result<String> {
    let output = Command::new(cargo())
        .args(["test", "--no-run", "--message-format=json"])
        .args(target)
        .args(["--package", package])
        .current_dir(crate::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the tests of {package} cannot be built ({})", output.status);
    }
    let told = String::from_utf8_lossy(&output.stdout);
    // Programs of the package that the tests run are told before.
    let program = told
        .rsplit_once("\"executable\":\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    program
        .map(|(path, _)| path.to_owned())
        .with_context(|| format!("cargo names no test program of {package}"))
}
