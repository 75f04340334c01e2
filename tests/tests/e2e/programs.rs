//! Programs that reach MPI in other ways than a linked C program: each call is recorded, and the
//! program is not affected. Over MPICH and Open MPI.
//!
//! These are Fortran programs by `mpif.h`, `use mpi` and `use mpi_f08`; plugins linked to MPI, also with `RTLD_DEEPBIND`; addresses
//! from `dlsym`; preloaded profiling layers; spawned children (Open MPI only, as Debian's MPICH 4.0 cannot); C++ programs that
//! inspect their stack, throw and cancel within MPI calls; and static programs, with and without symbols.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use crate::trace::traced;

const IMAGE: &str = "bookworm-bindings";
pub(crate) const OPEN_MPI: &str = "[workload.environment]
OMPI_ALLOW_RUN_AS_ROOT = \"1\"
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = \"1\"
OMPI_MCA_plm_rsh_agent = \"belljar-rsh\"
OMPI_MCA_plm_rsh_no_tree_spawn = \"1\"
OMPI_MCA_pml = \"ob1\"
OMPI_MCA_btl = \"tcp,self\"
OMPI_MCA_btl_tcp_if_include = \"eth0\"
OMPI_MCA_oob_tcp_if_include = \"eth0\"
OMPI_MCA_hwloc_base_binding_policy = \"none\"
";

/// An MPI implementation, and its command for starting `ranks` ranks of a program.
#[derive(Clone, Copy, PartialEq)]
enum Mpi {
    Mpich,
    OpenMpi,
}

impl Mpi {
    fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
        }
    }

    fn start(self, ranks: u32, command: &str) -> String {
        match self {
            Self::Mpich => format!("mpiexec.hydra -n {ranks} {command}"),
            Self::OpenMpi => {
                format!("mpirun -q --hostfile hosts --map-by node -np {ranks} {command}")
            }
        }
    }

    fn scenario(self, command: &str) -> Scenario {
        let hosts = "for node in 0 1; do echo node$node slots=2; done >hosts\n";
        let scenario = Scenario::new(2, &format!("{hosts}{command}"))
            .on(IMAGE)
            .limited("120 s");
        match self {
            Self::Mpich => scenario,
            Self::OpenMpi => scenario.with(OPEN_MPI),
        }
    }
}

/// The number of calls of each function, of all ranks together.
fn calls(dir: &Dir) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for ((_, function), count) in traced(dir) {
        *sums.entry(function).or_insert(0) += count;
    }
    sums
}

fn expect(found: &BTreeMap<String, u64>, expected: &[(&str, u64)], what: &str) {
    for &(function, count) in expected {
        let seen = found.get(function).copied().unwrap_or(0);
        assert_eq!(seen, count, "{function} of {what}: {found:?}");
    }
}

/// The method of tracing calls.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Probes,
    Library,
}

impl By {
    fn set(self, scenario: Scenario) -> Scenario {
        match self {
            Self::Probes => scenario,
            Self::Library => scenario.with("[trace]\nlibrary = true"),
        }
    }
}

/// All programs in one run: each makes calls that identify it.
fn bindings(mpi: Mpi, by: By) {
    let Some(dir) = Dir::new() else { return };
    let name = mpi.name();
    let token = |way| mpi.start(2, &format!("token-{way}-{name}"));
    let plugin = |deep| mpi.start(2, &format!("opener /usr/local/lib/plugin-{name}.so {deep}"));
    let layered = format!(
        "LD_PRELOAD=\"/usr/local/lib/layer-{name}.so $LD_PRELOAD\" {}",
        mpi.start(
            2,
            &match mpi {
                Mpi::Mpich => format!("opener /usr/local/lib/plugin-{name}.so"),
                Mpi::OpenMpi => format!("-x LD_PRELOAD opener /usr/local/lib/plugin-{name}.so"),
            }
            .replace("opener -x", "-x"),
        )
    );
    let command = [
        token("mpifh"),
        token("module"),
        token("f08"),
        plugin(""),
        plugin("global"),
        plugin("deep"),
        layered,
    ]
    .join("\n");
    let scenario = by.set(mpi.scenario(&command));
    let outcome = dir.run(&scenario, "out", &[]).success();
    let console = outcome.console(0);
    let tokens = console.matches("token: sum 1 from the left 1").count();
    assert_eq!(tokens, 3, "{console}");
    let plugins = console.matches("plugin: rank 1 sum 1").count();
    assert_eq!(plugins, 4, "{console}");
    let layers = console
        .matches("layer: 1 MPI_Init, 1 MPI_Allreduce")
        .count();
    assert_eq!(layers, 2, "{console}");
    // The library misses programs that open their own MPI first, and functions that they look up in
    // the layer's library.
    let (plugins, barriers) = if by == By::Probes { (8, 8) } else { (6, 4) };
    let expected = [
        ("MPI_Init", 6 + plugins),
        ("MPI_Comm_rank", 6 + plugins),
        ("MPI_Comm_size", 6),
        ("MPI_Send", 3),
        ("MPI_Recv", 3),
        ("MPI_Allreduce", 6 + plugins),
        ("MPI_Isend", 6),
        ("MPI_Irecv", 6),
        ("MPI_Waitall", 6),
        ("MPI_Barrier", barriers),
        ("MPI_Finalize", 6 + plugins),
    ];
    expect(&calls(&dir), &expected, name);
    // The library's own instructions belong to a run, so a run with it differs.
    if (mpi, by) == (Mpi::Mpich, By::Probes) {
        dir.holds("fortran-mpich", &outcome, IMAGE);
    }
}

#[test]
fn every_binding_of_mpich_is_seen() {
    bindings(Mpi::Mpich, By::Probes);
}

#[test]
fn every_binding_of_open_mpi_is_seen() {
    bindings(Mpi::OpenMpi, By::Probes);
}

#[test]
fn the_library_sees_bindings_of_mpich() {
    bindings(Mpi::Mpich, By::Library);
}

#[test]
fn the_library_sees_bindings_of_open_mpi() {
    bindings(Mpi::OpenMpi, By::Library);
}

/// Exceptions, backtraces and cancellations pass through traced calls as through others.
fn unwinding(mpi: Mpi, by: By) {
    let Some(dir) = Dir::new() else { return };
    // It ends without MPI_Finalize, so mpirun prints a message.
    let start = mpi.start(1, &format!("unwinding-{}", mpi.name()));
    let command = format!("{start} || true");
    let run = |out: &str, more: &[&str]| {
        let outcome = dir
            .run(&by.set(mpi.scenario(&command)), out, more)
            .success();
        outcome.console(0)
    };
    let console = run("out", &[]);
    for line in [
        "unwinding: error handler sees its caller",
        "unwinding: signal handler sees its caller",
        "unwinding: caught",
        "unwinding: destructor runs",
    ] {
        assert!(console.contains(line), "no {line:?} in\n{console}");
    }
    let untraced = run("untraced", &["--set", "trace.enabled=false"]);
    assert_eq!(console, untraced, "tracing changed the console");
    let calls = calls(&dir);
    // The second call was left by an exception, and counts; the cancelled one never returned.
    expect(
        &calls,
        &[("MPI_Send", 2), ("MPI_Reduce_local", 1)],
        mpi.name(),
    );
}

#[test]
fn mpich_calls_are_unwound() {
    unwinding(Mpi::Mpich, By::Probes);
}

#[test]
fn open_mpi_calls_are_unwound() {
    unwinding(Mpi::OpenMpi, By::Probes);
}

#[test]
fn mpich_calls_that_the_library_sees_are_unwound() {
    unwinding(Mpi::Mpich, By::Library);
}

/// Its C++ bindings call MPI from a constructor, too.
#[test]
fn open_mpi_calls_that_the_library_sees_are_unwound() {
    unwinding(Mpi::OpenMpi, By::Library);
}

/// Children are linked to their parents: traffic over the intercommunicator, and over the
/// communicator merged from it.
fn spawning(by: By) {
    let Some(dir) = Dir::new() else { return };
    let start = |way| Mpi::OpenMpi.start(2, &format!("/usr/local/bin/spawn-openmpi {way}"));
    let command = [start(""), start("multiple")].join("\n");
    let command = command.replace("mpirun", "sed -i s/=2/=4/ hosts; mpirun");
    let outcome = dir.run(&by.set(Mpi::OpenMpi.scenario(&command)), "out", &[]);
    let console = outcome.success().console(0);
    assert_eq!(console.matches("of 4 was told 42").count(), 8, "{console}");
    let (stdout, stderr, code) = dir.call(&["trace", "stat", "out", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    let stat: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(stat["unresolved_messages"], 0, "{stat}");
    let word = |entry: &Value, name: &str| entry[name].as_u64().unwrap();
    let traffic = stat["traffic"].as_array().unwrap().iter();
    let found: BTreeSet<[u64; 5]> = traffic
        .map(|it| ["job", "from", "to_job", "to", "bytes"].map(|name| word(it, name)))
        .collect();
    let mut expected = BTreeSet::new();
    for (parents, children) in [(0, 1), (2, 3)] {
        for rank in 0..2 {
            expected.insert([children, rank, parents, rank, 200 + rank]);
            expected.insert([parents, rank, children, rank, 1000]);
        }
        expected.insert([parents, 0, children, 1, 24]);
    }
    assert_eq!(found, expected);
}

#[test]
fn spawned_children_are_linked_to_their_parents() {
    spawning(By::Probes);
}

#[test]
fn children_whose_calls_the_library_sees_are_linked() {
    spawning(By::Library);
}

/// Compiles a static program that contains an MPI library, and one without its symbols.
#[allow(clippy::print_stderr)]
fn linked_in(dir: &Dir) -> Option<()> {
    let source = belljar_tests::root().join("images/programs/linked-in.c");
    for (name, flag) in [("linked-in", "-O2"), ("stripped", "-s")] {
        let made = Command::new("cc")
            .args(["-static", flag, "-o"])
            .args([&dir.path(name), &source])
            .status();
        if !made.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: no static program can be made here (apt install gcc libc6-dev)");
            return None;
        }
    }
    Some(())
}

/// A library in a static program is observed; if its symbols are stripped, the run names the
/// program.
#[test]
fn a_static_program_is_seen_or_named() {
    let Some(dir) = Dir::new() else { return };
    let Some(()) = linked_in(&dir) else { return };
    let files = "[workload.files]\n\"linked-in\" = \"linked-in\"\nstripped = \"stripped\"";
    let scenario = Scenario::new(1, "./linked-in && PMI_RANK=7 PMI_SIZE=8 ./stripped");
    let file = dir.write("scenario.toml", &scenario.with(files).text());
    let (stdout, stderr, code) = dir.call(&["run", file.to_str().unwrap(), "--out", "out"]);
    assert_eq!(code, Some(0), "{stdout}\n{stderr}");
    let outcome = dir.outcome("out");
    let console = outcome.console(0);
    assert_eq!(console.matches("linked in: token").count(), 2, "{console}");
    let expected = [("MPI_Init", 1), ("MPI_Send", 3), ("MPI_Finalize", 1)];
    let found = calls(&dir);
    expect(&found, &expected, "linked-in");
    assert!(!found.contains_key("MPI_Comm_rank"), "{found:?}");
    let warning = "a launcher started ./stripped (1 times, as rank 7 for one)";
    assert!(stdout.contains(warning), "{stdout}\n{stderr}");
}

/// The preloaded library is not visible to a workload: neither in its environment, nor as a file
/// that another root directory would lack.
#[test]
fn a_workload_does_not_see_what_is_preloaded() {
    let Some(dir) = Dir::new() else { return };
    let command = "\
names() { LD_TRACE_LOADED_OBJECTS=1 /bin/bash | grep -o '/[^ ]*' | grep -v belljar; }
for file in /bin/bash $(names); do mkdir -p jail${file%/*}; cp -L $file jail$file; done
chroot jail /bin/bash -c 'echo in another root directory'
mpiexec.hydra -n 2 env >environment
echo \"preloaded: $(grep -c PRELOAD environment)\"";
    let scenario = Scenario::new(2, command);
    let console = dir.run(&scenario, "out", &[]).success().console(0);
    assert!(console.contains("in another root directory"), "{console}");
    assert!(!console.contains("ld.so:"), "{console}");
    assert!(console.contains("preloaded: 0"), "{console}");
}
