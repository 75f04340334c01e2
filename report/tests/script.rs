//! The page's script, checked and tested by the tools of its own language; skipped with a message if these are missing.
#![allow(clippy::print_stderr)]

use std::path::PathBuf;
use std::process::Command;

/// The compiler that checks the types, from npm.
const TYPESCRIPT: &str = "typescript@5.9.3";

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("page")
}

/// Runs a command. Returns its output if it succeeded, otherwise its error output; `None` if it could not be started.
fn run(program: &str, arguments: &[&str]) -> Option<Result<String, String>> {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(page()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    Some(match output.status.success() {
        true => Ok(said),
        false => Err(said),
    })
}

#[test]
fn the_scripts_parts_do_what_they_should() {
    match run("node", &["--test", "test/"]) {
        Some(Ok(said)) => assert!(
            said.contains("# fail 0") || said.contains("fail 0"),
            "{said}"
        ),
        Some(Err(said)) => panic!("{said}"),
        None => eprintln!(
            "SKIPPED: the script of reports is not tested, as there is no node; apt install nodejs"
        ),
    }
}

#[test]
fn the_scripts_types_are_right() {
    let npx = ["--yes", "--package", TYPESCRIPT, "tsc"];
    let there = run("npx", &[&npx[..], &["--version"]].concat());
    if !matches!(there, Some(Ok(_))) {
        eprintln!(
            "SKIPPED: the script of reports is not checked, as npx has no {TYPESCRIPT}; apt install npm"
        );
        return;
    }
    match run("npx", &[&npx[..], &["--project", "."]].concat()) {
        Some(Ok(_)) => {}
        said => panic!("{said:?}"),
    }
}
