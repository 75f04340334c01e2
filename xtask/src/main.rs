//! The project's own commands: `cargo xtask help` lists them.
//!
//! Each is a module with one function that is called here. They run commands that a user could type, and print them.
//! `packages` and `shell` serve the others, which are independent of one another; `check` alone runs parts of
//! `groups`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// `cargo xtask bench`: Belljar against QEMU's system emulation.
mod bench;
/// `cargo xtask check`: checks before a commit.
mod check;
/// `cargo xtask demo`: from nothing to a traced run.
mod demo;
/// `cargo xtask frozen`: outputs of every reader on pinned traces.
mod frozen;
/// `cargo xtask fuzz`: endless property tests.
mod fuzz;
/// `cargo xtask generate`: the table of MPI functions, from the headers that are installed.
mod generate;
/// `cargo xtask test`: groups of tests, and their requirements.
mod groups;
/// `cargo xtask kvm-unit-tests DIR`: the cases of a built kvm-unit-tests tree.
mod kvm_unit_tests;
/// `cargo xtask package`: a Debian package of Belljar.
mod package;
/// Debian packages that the project's commands need on the host.
mod packages;
/// The Python package's tests.
mod python;
/// Execution of other programs, with their command lines printed.
mod shell;
/// Checks of the source tree.
mod tree;
/// `cargo xtask validate`: replays compared with runs.
mod validate;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Belljar's own commands", version)]
struct XtaskArguments {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Build everything and run Linpack on four nodes.
    ///
    /// Missing packages are installed first.
    Demo,
    /// Run the checks before a commit.
    ///
    /// They are format, lints, generated files, links of the docs, and the unit tests of crates with changes.
    Check,
    /// Install the requirements of the tests and run them.
    Test {
        /// Group of tests; all when absent.
        group: Option<groups::Group>,
    },
    /// Compare readers' outputs on pinned traces with digests.
    Frozen(frozen::FrozenArguments),
    /// Compare with QEMU's emulation, in turns, and print ratios.
    Bench(bench::BenchArguments),
    /// Compare replays with runs and write docs/accuracy.md.
    ///
    /// Programs run on several networks, and each trace is replayed on the others.
    Validate(validate::ValidateArguments),
    /// Make a Debian package: target/package/belljar.deb.
    Package,
    /// Run a built tree of kvm-unit-tests and print results.
    KvmUnitTests(kvm_unit_tests::KvmUnitTestsArguments),
    /// Fuzz one part with random programs, code, tables or files.
    Fuzz(fuzz::FuzzArguments),
    /// Print the share of hard sentences, by crate and page.
    Prose(tree::prose::ProseArguments),
    /// Write the files that are generated from others' headers.
    Generate {
        /// Only check that they are up to date.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let result = match XtaskArguments::parse().command {
        XtaskCommand::Demo => demo::run(),
        XtaskCommand::Check => check::run(),
        XtaskCommand::Test { group } => groups::run(group),
        XtaskCommand::Frozen(arguments) => frozen::run(&arguments),
        XtaskCommand::Bench(arguments) => bench::run(&arguments),
        XtaskCommand::Validate(arguments) => validate::run(&arguments),
        XtaskCommand::Package => package::run(),
        XtaskCommand::KvmUnitTests(arguments) => kvm_unit_tests::run(&arguments),
        XtaskCommand::Fuzz(arguments) => fuzz::run(&arguments),
        XtaskCommand::Prose(arguments) => tree::prose::run(&arguments),
        XtaskCommand::Generate { check } => generate::mpi(check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The project's top folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask has a parent")
        .to_path_buf()
}
