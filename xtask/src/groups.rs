//! `cargo xtask test`: groups of tests, and their requirements.
//!
//! A group installs and builds the requirements of its tests before they run. Tests whose requirements this machine cannot have are skipped, with the reason. Called by
//! `main`.

/// Tests of the engine's code.
mod engine;
/// Images of the tests of groups.
mod images;
/// Programs of tests.
mod programs;
/// Seconds of the stages.
mod stages;

use std::thread::ScopedJoinHandle;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::packages::{self, BUILD, TEST};
use crate::python;
use crate::shell::{self, BuildProfile, build_belljar, cargo, run_with};
use crate::tree::dependencies;
use programs::{OutputForm, TestPrograms};
use stages::Stages;

/// A group of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// Formatting, lints, documentation, generated files.
    Lint,
    /// Unit and property tests of all crates.
    Unit,
    /// Every instruction form, and random programs, against this host's processor.
    Differential,
    /// Nodes boot and run commands.
    Boot,
    /// Other kernels, 32-bit programs, `belljar boot`.
    Kernels,
    /// Frames take their time.
    Network,
    /// MPI programs across nodes.
    Mpi,
    /// Users' programs, without a scenario.
    Mpirun,
    /// Existing container images and root file systems.
    ///
    /// Run alone, the group also tests whole distributions.
    Containers,
    /// Equal results of equal scenarios.
    Determinism,
    /// Tracing does not affect the traced program.
    Perturbation,
    /// Programs that reach MPI differently from C programs.
    Programs,
    /// Other projects' tests, traced and counted; alone, all of them.
    Peers,
    /// A digest of GROMACS' run, on its own image.
    Digests,
    /// Nodes of several vCPUs.
    Smp,
    /// Hashes of states, and the first difference of runs.
    Bisect,
    /// Clones of a node, and their snapshots.
    Snapshot,
    /// Interrupted and resumed runs.
    Checkpoint,
    /// The kvm engine, in a machine with KVM.
    Kvm,
    /// Runs on several hosts, simulated by processes here.
    Partition,
    /// Guests' threads under seccomp.
    Sandbox,
    /// Guests that try to break out, and their ends.
    Hostile,
    /// The time model, and cycles per instruction.
    Timing,
    /// Traces against independent counts.
    Trace,
    /// Traced runs replayed on other networks.
    Replay,
    /// The package, on a minimal Debian; alone, the source, too.
    Install,
    /// Files of the nodes, and the command's outputs.
    Outputs,
    /// The tutorial, step by step.
    Tutorial,
    /// Live observation of runs, and input for them.
    Look,
    /// Groups of different nodes.
    Groups,
    /// Detours of nodes' processors.
    Noise,
    /// Other orders of a job's messages, holds, detours and failures.
    Explore,
    /// A run under gdb, forwards and backwards.
    Debug,
    /// InfiniBand cards and their network.
    Infiniband,
    /// Bad input and bad ends.
    Input,
    /// Several physical hosts, in a lab: Slurm, ssh, jobs.
    Hosts,
    /// The Python package.
    Python,
    /// Outputs of every reader on pinned traces.
    Frozen,
}

const END_TO_END: &[Group] = &[
    Group::Boot,
    Group::Kernels,
    Group::Network,
    Group::Mpi,
    Group::Mpirun,
    Group::Containers,
    Group::Determinism,
    Group::Perturbation,
    Group::Programs,
    Group::Peers,
    Group::Smp,
    Group::Bisect,
    Group::Snapshot,
    Group::Checkpoint,
    Group::Kvm,
    Group::Partition,
    Group::Sandbox,
    Group::Hostile,
    Group::Timing,
    Group::Trace,
    Group::Replay,
    Group::Groups,
    Group::Noise,
    Group::Explore,
    Group::Debug,
    Group::Install,
    Group::Outputs,
    Group::Tutorial,
    Group::Look,
    Group::Infiniband,
    Group::Input,
    Group::Hosts,
];

/// Runs a group, or all.
pub(crate) fn run(group: Option<Group>) -> Result<()> {
    packages::ensure(&[BUILD, TEST])?;
    match group {
        Some(Group::Lint) => lint(),
        Some(Group::Unit) => unit(),
        Some(Group::Differential) => engine::differential(),
        Some(Group::Digests) => end_to_end(&[Group::Digests], &[(GROMACS, "1")]),
        Some(Group::Python) => {
            let binary = prepare(&[])?;
            python(&binary)
        }
        Some(Group::Frozen) => crate::frozen::check(&build_belljar(BuildProfile::Dev)?),
        Some(Group::Peers) => end_to_end(&[Group::Peers], &[(LONG_PEERS, "1")]),
        Some(Group::Install) => end_to_end(&[Group::Install], &[(FROM_SOURCE, "1")]),
        Some(Group::Containers) => end_to_end(&[Group::Containers], &[(WHOLE_ROOTS, "1")]),
        Some(group) => end_to_end(&[group], &[]),
        None => everything(),
    }
}

/// All groups. Everything is built first. Lints wait for single crates, images for the mirror, and the tests in an emulated machine take one processor
/// for many minutes, so two lines of stages run at once: images and the tests that need them; and all others. Prints the seconds of each stage at
/// the end.
fn everything() -> Result<()> {
    let stages = Stages::default();
    let outcome = all_stages(&stages);
    stages.print();
    outcome
}

fn all_stages(stages: &Stages) -> Result<()> {
    let build = ["test", "--workspace", "--no-run", "--quiet"];
    stages.time("build of tests", || shell::run(&cargo(), &build))?;
    let binary = stages.time("build of belljar", || build_binary(END_TO_END))?;
    // Cargo is not called again for these: it would wait for the builds of lints.
    let programs = stages.time("test programs", TestPrograms::build)?;
    std::thread::scope(|scope| {
        let guests = scope.spawn(|| {
            stages.time("images", || images::build_all(END_TO_END, &binary))?;
            let form = OutputForm::Named;
            std::thread::scope(|scope| {
                let machine = scope
                    .spawn(|| stages.time("kvm", || in_machine(&programs, &binary, &[], form)));
                let on_host = || on_host(&programs, END_TO_END, &binary, &[], form);
                stages.time("end to end", on_host)?;
                join(machine)
            })
        });
        stages.time("lint", lint)?;
        stages.time("frozen", || crate::frozen::check(binary.as_ref()))?;
        stages.time("python", || python(&binary))?;
        // The differential tests are among the unit tests of their crate.
        stages.time("unit", unit)?;
        stages.time("pooled", engine::pooled)?;
        stages.time("wait for end to end", || join(guests))
    })
}

/// The outcome of a thread's stages.
fn join(stages: ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    let outcome = stages.join();
    outcome.unwrap_or_else(|_| bail!("a thread of stages panicked"))
}

/// The variable with the Python that reads exported traces.
const READERS: &str = "BELLJAR_PYTHON";

/// The tests of the Python package, if its environment is available.
fn python(binary: &str) -> Result<()> {
    python::environment().map_or(Ok(()), |python| python::test(&python, binary))
}

/// Format, lints, documentation, generated files, licences, advisories.
pub(crate) fn lint() -> Result<()> {
    let cargo = cargo();
    shell::run(&cargo, &["fmt", "--all", "--check"])?;
    shell::run(
        &cargo,
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--test",
            "e2e",
            "--quiet",
            "--",
            "--deny",
            "warnings",
        ],
    )?;
    // Crates that clippy has checked are not compiled again.
    let arguments = [
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ];
    run_with(&cargo, &arguments, &[("RUSTDOCFLAGS", "--deny warnings")])?;
    crate::generate::mpi(true)?;
    crate::tree::prose::check()?;
    dependencies::deny(&cargo)
}

/// Always for the whole workspace, as all other builds of tests: for a part of it, dependencies would have other
/// features and be built again.
fn unit() -> Result<()> {
    let python = python::environment();
    let python = python.as_ref().map(|python| python.to_string_lossy());
    let readers: Vec<_> = python.iter().map(|python| (READERS, &**python)).collect();
    let words = ["test", "--workspace", "--no-fail-fast", "--quiet"];
    run_with(&cargo(), &words, &readers)
}

/// Enables the test with its own image.
const GROMACS: &str = "BELLJAR_GROMACS";

/// Enables the long tests of other projects.
const LONG_PEERS: &str = "BELLJAR_PEERS";

/// Enables compiling the command on a clean Debian.
const FROM_SOURCE: &str = "BELLJAR_FROM_SOURCE";

/// Enables tests with whole distributions as containers.
const WHOLE_ROOTS: &str = "BELLJAR_ROOTS";

/// Runs the tests of `groups`, with `more` in their environment.
fn end_to_end(groups: &[Group], more: &[(&str, &str)]) -> Result<()> {
    let binary = prepare(groups)?;
    let programs = TestPrograms::build()?;
    on_host(&programs, groups, &binary, more, OutputForm::Plain)?;
    if groups.contains(&Group::Kvm) {
        in_machine(&programs, &binary, more, OutputForm::Plain)?;
    }
    Ok(())
}

/// Builds and installs the requirements of the tests of `groups`. Returns the path of `belljar`.
fn prepare(groups: &[Group]) -> Result<String> {
    let binary = build_binary(groups)?;
    images::build_all(groups, &binary)?;
    Ok(binary)
}

/// Builds `belljar`, and installs the packages of the groups that have their own. Returns the path of `belljar`.
fn build_binary(groups: &[Group]) -> Result<String> {
    let binary = build_belljar(BuildProfile::Dev)?;
    let binary = binary.into_os_string().into_string();
    let binary = binary
        .ok()
        .context("the target folder's path is not text")?;
    if groups.contains(&Group::Hosts) {
        packages::ensure_lab();
    }
    if groups.contains(&Group::Kvm) {
        packages::ensure_new_qemu();
    }
    Ok(binary)
}

/// Runs the `groups` that need no emulated machine.
fn on_host(
    programs: &TestPrograms,
    groups: &[Group],
    binary: &str,
    more: &[(&str, &str)],
    output: OutputForm,
) -> Result<()> {
    let groups = groups.iter().copied();
    let groups: Vec<_> = groups.filter(|group| *group != Group::Kvm).collect();
    if groups.is_empty() {
        return Ok(());
    }
    let package = match groups.contains(&Group::Install) && crate::package::installed() {
        true => Some(crate::package::for_tests(binary.as_ref())?),
        false => None,
    };
    let package = package.map(|path| path.to_string_lossy().into_owned());
    let package = package.as_deref().map(|path| ("BELLJAR_PACKAGE", path));
    let mut environment = [&[("BELLJAR_BIN", binary)], more].concat();
    environment.extend(package);
    let mut arguments = end_to_end_tests(&groups);
    arguments.extend(["--test-threads".to_owned(), tests_at_once().to_string()]);
    programs.end_to_end("e2e", output, &arguments, &environment)
}

/// Number of end-to-end tests at once: one more than processors, as a run uses one and at times waits for the disk or for
/// another host.
fn tests_at_once() -> usize {
    std::thread::available_parallelism().map_or(2, |processors| processors.get() + 1)
}

/// Runs the kvm group, one test at a time, as an emulated machine needs a processor.
fn in_machine(
    programs: &TestPrograms,
    binary: &str,
    more: &[(&str, &str)],
    output: OutputForm,
) -> Result<()> {
    let own = [
        ("BELLJAR_BIN", binary),
        ("BELLJAR_KVM_TESTS", &programs.kvm),
        ("BELLJAR_DIGESTS", &programs.digests),
    ];
    let environment = [&own, more].concat();
    let mut arguments = end_to_end_tests(&[Group::Kvm]);
    arguments.extend(["--test-threads", "1"].map(str::to_owned));
    programs.end_to_end("kvm", output, &arguments, &environment)
}

/// Arguments of the end-to-end tests of `groups`.
fn end_to_end_tests(groups: &[Group]) -> Vec<String> {
    let filters = groups
        .iter()
        .filter_map(|group| group.to_possible_value())
        .map(|value| format!("{}::", value.get_name()));
    filters.collect()
}

#[cfg(test)]
mod tests {
    use super::images::{SEVERAL, images};
    use super::*;

    /// The text of a group's tests.
    fn text(group: Group) -> String {
        let name = group.to_possible_value().expect("it has a name");
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tests/e2e");
        let file = format!("{folder}/{}.rs", name.get_name());
        let read = |file: &std::path::Path| {
            let text = std::fs::read_to_string(file);
            text.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        };
        let parts = std::fs::read_dir(format!("{folder}/{}", name.get_name()));
        let parts = parts.into_iter().flatten().flatten();
        let parts = parts.map(|part| part.path());
        let parts = parts.filter(|part| part.extension().is_some_and(|end| end == "rs"));
        let parts: String = parts.map(|part| read(&part)).collect();
        read(file.as_ref()) + &parts
    }

    #[test]
    fn every_module_of_tests_is_a_group_that_is_run() {
        let modules = include_str!("../../tests/tests/e2e/main.rs").lines();
        let modules = modules.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        for module in modules {
            let group = Group::from_str(module, false);
            let group = group.unwrap_or_else(|_| panic!("no group is called {module}"));
            let run = END_TO_END.contains(&group) || group == Group::Digests;
            assert!(run, "{module} is not run with all");
        }
    }

    #[test]
    fn a_group_by_itself_builds_the_images_that_its_tests_name() {
        for &group in END_TO_END {
            let text = text(group);
            let several = text.contains(".vcpus(") || text.contains(SEVERAL);
            assert_eq!(images(&[group]).contains(&SEVERAL), several, "{group:?}");
        }
        assert!(images(END_TO_END).contains(&SEVERAL));
    }
}
