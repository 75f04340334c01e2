//! The project's own commands: `cargo xtask help` lists them.
//!
//! Each is a module with one function that is called here. They run what a person could type, and print
//! that. `packages` and `shell` serve the others, which do not know one another; `check` alone runs parts of `groups`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// `cargo xtask bench`: Belljar against QEMU's system emulation.
mod bench;
/// `cargo xtask check`: what one runs before a commit.
mod check;
/// `cargo xtask demo`: from nothing to a traced run.
mod demo;
/// `cargo xtask frozen`: outputs of every reader on pinned traces.
mod frozen;
/// `cargo xtask fuzz`: property tests without an end.
mod fuzz;
/// `cargo xtask generate`: the table of MPI functions, from the headers that are installed.
mod generate;
/// `cargo xtask test`: groups of tests, and what they need.
mod groups;
/// `cargo xtask kvm-unit-tests DIR`: the cases of a built kvm-unit-tests tree.
mod kvm_unit_tests;
/// `cargo xtask package`: a Debian package of Belljar.
mod package;
/// Debian packages that the project's commands need on the host.
mod packages;
/// The Python package's tests.
mod python;
/// Running other programs, and saying so.
mod shell;
/// Checks of the source tree.
mod tree;
/// `cargo xtask validate`: replays held against runs.
mod validate;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Belljar's own commands", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what is missing, build, and run High Performance Linpack on four nodes.
    Demo,
    /// What one runs before a commit: format, lints, generated files, links of the docs, and the unit tests of
    /// crates with changes.
    Check,
    /// Install what the tests need and run all of them, or one group.
    Test {
        /// The group; all when absent.
        group: Option<groups::Group>,
    },
    /// Compare every reader's outputs on pinned traces with digests in the tree.
    Frozen(frozen::Arguments),
    /// Measure against QEMU's emulation, in turns, and print ratios.
    Bench(bench::Arguments),
    /// Run programs on several networks, replay each trace on the others, and write docs/accuracy.md.
    Validate(validate::Arguments),
    /// Make a Debian package: target/package/belljar.deb.
    Package,
    /// Run kvm-unit-tests' x86 cases, from a tree that is built, and print a table.
    KvmUnitTests(kvm_unit_tests::Arguments),
    /// Give random programs, code, tables, descriptors or files to one part, as long as wanted.
    Fuzz(fuzz::Arguments),
    /// Print the share of sentences that are hard to read, for each crate and each page.
    Prose(tree::prose::Arguments),
    /// Write the files that are generated from others' headers.
    Generate {
        /// Only tell whether they are up to date.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo => demo::run(),
        Command::Check => check::run(),
        Command::Test { group } => groups::run(group),
        Command::Frozen(arguments) => frozen::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Validate(arguments) => validate::run(&arguments),
        Command::Package => package::run(),
        Command::KvmUnitTests(arguments) => kvm_unit_tests::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Prose(arguments) => tree::prose::run(&arguments),
        Command::Generate { check } => generate::mpi(check),
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
