//! Programs that come to MPI in other ways than a C program linked to it does: each call is seen,
//! and the program is none the wiser. Over MPICH and Open MPI.

use std::collections::BTreeMap;
use std::process::Command;

use belljar_tests::{Dir, Scenario};

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

/// An MPI implementation, and how `ranks` ranks of a program are started with it.
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

/// How often each function was called, by all ranks together.
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

/// All of it in one run: the calls are told apart by what only one program makes.
fn bindings(mpi: Mpi) {
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
        plugin("deep"),
        layered,
    ]
    .join("\n");
    let outcome = dir.run(&mpi.scenario(&command), "out", &[]).success();
    let console = outcome.console(0);
    let tokens = console.matches("token: sum 1 from the left 1").count();
    assert_eq!(tokens, 3, "{console}");
    let plugins = console.matches("plugin: rank 1 sum 1").count();
    assert_eq!(plugins, 3, "{console}");
    let layers = console
        .matches("layer: 1 MPI_Init, 1 MPI_Allreduce")
        .count();
    assert_eq!(layers, 2, "{console}");
    let expected = [
        ("MPI_Init", 12),
        ("MPI_Comm_rank", 12),
        ("MPI_Comm_size", 6),
        ("MPI_Send", 3),
        ("MPI_Recv", 3),
        ("MPI_Allreduce", 12),
        ("MPI_Isend", 6),
        ("MPI_Irecv", 6),
        ("MPI_Waitall", 6),
        ("MPI_Barrier", 6),
        ("MPI_Finalize", 12),
    ];
    expect(&calls(&dir), &expected, name);
}

#[test]
fn every_binding_of_mpich_is_seen() {
    bindings(Mpi::Mpich);
}

#[test]
fn every_binding_of_open_mpi_is_seen() {
    bindings(Mpi::OpenMpi);
}

/// Exceptions, backtraces and cancellations go through traced calls as through others.
fn unwinding(mpi: Mpi) {
    let Some(dir) = Dir::new() else { return };
    // It ends without MPI_Finalize, of which mpirun has a word to say.
    let start = mpi.start(1, &format!("unwinding-{}", mpi.name()));
    let command = format!("{start} || true");
    let run = |out: &str, more: &[&str]| {
        let outcome = dir.run(&mpi.scenario(&command), out, more).success();
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
    // The second was left by an exception, and counts; the cancelled one never returned.
    expect(
        &calls,
        &[("MPI_Send", 2), ("MPI_Reduce_local", 1)],
        mpi.name(),
    );
}

#[test]
fn mpich_calls_are_unwound() {
    unwinding(Mpi::Mpich);
}

#[test]
fn open_mpi_calls_are_unwound() {
    unwinding(Mpi::OpenMpi);
}

/// Compiles a static program that holds an MPI library, and one without its names.
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

/// A library that is linked into a static program is seen; where its names are stripped off,
/// the run says which program it is.
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
