//! Execution of other programs, with their command lines printed.
//!
//! Each command line is printed before it runs, in the project's top folder; a failing one is an error. Called by
//! all commands here.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program in the project's top folder; it must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    run_with(program, arguments, &[])
}

/// As [`run`], with more environment.
pub(crate) fn run_with<Argument: AsRef<str>>(
    program: &str,
    arguments: &[Argument],
    environment: &[(&str, &str)],
) -> Result<()> {
    let line = command_line(program, arguments);
    eprintln!("$ {line}");
    let status = Command::new(program)
        .args(arguments.iter().map(Argument::as_ref))
        .envs(environment.iter().copied())
        .current_dir(crate::root())
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{line} failed ({status})");
    }
    Ok(())
}

/// The words of a command, as typed in a shell.
fn command_line<Argument: AsRef<str>>(program: &str, arguments: &[Argument]) -> String {
    let words = arguments.iter().map(Argument::as_ref);
    let words: Vec<&str> = [program].into_iter().chain(words).collect();
    words.join(" ")
}

/// As [`run_with`], with `name` before each line of the program's output: several may run at once.
pub(crate) fn run_named<Argument: AsRef<str>>(
    name: &str,
    program: &str,
    arguments: &[Argument],
    environment: &[(&str, &str)],
) -> Result<()> {
    let line = command_line(program, arguments);
    eprintln!("$ {line}");
    let (reader, writer) = std::io::pipe().context("the host has no pipe")?;
    let other = writer.try_clone().context("the host has no pipe")?;
    let mut command = Command::new(program);
    command.args(arguments.iter().map(Argument::as_ref));
    command.envs(environment.iter().copied());
    command.current_dir(crate::root());
    let child = command.stdout(writer).stderr(other).spawn();
    let mut child = child.with_context(|| format!("cannot start {program}"))?;
    // These ends of the pipe are closed here, so that reading ends with the program.
    drop(command);
    for written in BufReader::new(reader).lines() {
        eprintln!("{name}: {}", written.context("what it writes is no text")?);
    }
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for {program}"))?;
    if !status.success() {
        bail!("{line} failed ({status})");
    }
    Ok(())
}

/// The cargo that started this program.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), PathBuf::from)
}

/// Purpose of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuildProfile {
    /// Tests: mostly built already for unit tests. It runs guests about as fast as a release build, as the engine
    /// generates the guests' code, and it checks for overflow.
    Dev,
    /// Use, and measurements.
    Release,
}

/// Builds `belljar` and returns its path.
pub(crate) fn build_belljar(profile: BuildProfile) -> Result<PathBuf> {
    // Together with the tests of the whole workspace: its features are then those of the unit tests' build.
    let (options, folder): (&[&str], _) = match profile {
        BuildProfile::Dev => (&["--workspace", "--test", "e2e"], "debug"),
        BuildProfile::Release => (&["--package", "belljar-cli", "--release"], "release"),
    };
    let arguments = [&["build", "--bin", "belljar"], options].concat();
    run(&cargo(), &arguments)?;
    let binary = target().join(folder).join("belljar");
    if !binary.exists() {
        bail!("{} was not built", binary.display());
    }
    Ok(binary)
}

/// Builds the test program `name` of `package` and returns its path: a file of its `tests` folder, or the package's
/// own name for the tests in its library.
pub(crate) fn test_program(package: &str, name: &str) -> Result<String> {
    let target: &[&str] = match name == package {
        true => &["--lib"],
        false => &["--test", name],
    };
    let output = Command::new(cargo())
        .args(["test", "--workspace", "--no-run", "--message-format=json"])
        .args(target)
        .current_dir(crate::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the tests of {package} cannot be built ({})", output.status);
    }
    let told = String::from_utf8_lossy(&output.stdout);
    let program = told.lines().find_map(|line| program_of(line, name));
    program.with_context(|| format!("cargo names no test program {name} of {package}"))
}

/// The test program in a message of cargo, if it has this name.
fn program_of(message: &str, name: &str) -> Option<String> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let own = message["target"]["name"].as_str()?.replace('_', "-") == name;
    let program = message["executable"].as_str()?;
    (own && message["profile"]["test"] == true).then(|| program.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_found_by_its_name() {
        let message =
            r#"{"target":{"name":"belljar_kvm"},"profile":{"test":true},"executable":"/t/kvm-1"}"#;
        assert_eq!(
            program_of(message, "belljar-kvm").as_deref(),
            Some("/t/kvm-1")
        );
        assert_eq!(program_of(message, "digests"), None);
        let library =
            r#"{"target":{"name":"belljar_kvm"},"profile":{"test":false},"executable":null}"#;
        assert_eq!(program_of(library, "belljar-kvm"), None);
        assert_eq!(program_of("Compiling", "belljar-kvm"), None);
    }
}
