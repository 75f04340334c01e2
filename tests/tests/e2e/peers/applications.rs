//! Applications: small Fortran programs after the NAS Parallel Benchmarks, mpi4py's test suite, LAMMPS'
//! melt and the HPC Challenge.
//!
//! Natively they run the code for a processor of the nodes' level, so that numbers agree to the last digit.

use std::path::PathBuf;
use std::process::Command;

use belljar_tests::Dir;

use super::counts::{self, Table};
use super::jobs::{Job, Mpi, Needs};
use super::native::Native;
use super::{Both, Place, TOGETHER, assert_alike, chosen, long, told, verdicts};

const IMAGE: &str = "bookworm-applications";

fn job(ranks: u32, program: &str, arguments: &str) -> Job {
    Job {
        program: program.to_owned(),
        ranks,
        arguments: arguments.to_owned(),
    }
}

/// Runs `jobs` in batches, unless they take too long or are impossible here. `check` examines each batch:
/// it asserts its conditions, and removes incomparable counts. Asserts at the end that all remaining calls
/// and bytes agree with the layer's counts.
fn run(dir: &Dir, mpi: Mpi, jobs: Vec<Job>, needs: &Needs<'_>, check: impl Fn(&mut Both, &[Job])) {
    let Some(native) = Native::new(dir, IMAGE) else {
        return;
    };
    let place = Place {
        dir,
        native,
        image: IMAGE,
        mpi,
        nodes: 4,
    };
    let jobs = chosen(jobs);
    let mut wrong = Vec::new();
    for jobs in jobs.chunks(TOGETHER) {
        let mut both = place.run(jobs, needs);
        let calls = |number| counts::calls(&both.traced, number);
        let calls: Vec<u64> = (0..jobs.len()).map(calls).collect();
        check(&mut both, jobs);
        for (number, job) in jobs.iter().enumerate() {
            let differ = both.differences(number, job);
            eprintln!("{}", told(job, "the same", calls[number], &differ));
            wrong.extend(differ.iter().map(|line| format!("{}: {line}", job.line())));
        }
    }
    assert_alike(jobs.len(), &wrong);
}

/// A folder for the long tests; `None`, with a message, if they are disabled.
fn folder() -> Option<Dir> {
    if long() { Dir::new() } else { None }
}

/// The lines of a text that `wanted` selects, without surrounding blanks.
fn lines(text: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| wanted(line))
        .map(str::to_owned)
        .collect()
}

const FORTRAN: [&str; 3] = ["gradient", "transpose", "wavefront"];

fn fortran() -> Vec<Job> {
    let mut jobs = Vec::new();
    for program in FORTRAN {
        for binding in ["mpifh", "f08"] {
            for ranks in [2, 3, 4] {
                jobs.push(job(ranks, &format!("bin/{program}-{binding}"), ""));
            }
        }
    }
    jobs
}

/// Asserts equal outputs of the programs natively and on nodes.
fn assert_says_the_same(both: &Both, jobs: &[Job]) {
    let said = |text: &str| {
        lines(text, |line| {
            FORTRAN
                .iter()
                .any(|name| line.starts_with(&format!("{name}:")))
        })
    };
    let (own, theirs) = (said(&both.own), said(&both.theirs));
    assert_eq!(own.len(), jobs.len(), "{}", both.own);
    assert_eq!(own, theirs);
}

/// Calls with buffers, which MPICH's binding for `mpi_f08` passes to C functions that a layer can
/// intercept. It calls all others by their PMPI_ names.
const WITH_BUFFERS: [&str; 7] = [
    "MPI_Send",
    "MPI_Recv",
    "MPI_Isend",
    "MPI_Irecv",
    "MPI_Reduce",
    "MPI_Allreduce",
    "MPI_Alltoall",
];

#[test]
fn fortran_over_mpich() {
    let Some(dir) = folder() else { return };
    run(
        &dir,
        Mpi::Mpich,
        fortran(),
        &Needs::default(),
        |both, jobs| {
            assert_says_the_same(both, jobs);
            let by_the_layer = |(job, _, function): &(usize, u64, String)| {
                !jobs[*job].program.ends_with("f08") || WITH_BUFFERS.contains(&function.as_str())
            };
            both.counted.retain(|key, _| by_the_layer(key));
            both.traced.retain(|key, _| by_the_layer(key));
        },
    );
}

/// A layer for C does not intercept Open MPI's Fortran entry points, and a layer for these counts calls
/// only.
#[test]
fn fortran_over_open_mpi() {
    let Some(dir) = folder() else { return };
    let needs = Needs {
        before: "layer=/usr/local/openmpi/lib/count-fortran.so\n",
        ..Needs::default()
    };
    run(&dir, Mpi::OpenMpi, fortran(), &needs, |both, jobs| {
        assert_says_the_same(both, jobs);
        assert!(counts::sent(&both.traced) > 0);
        let bare = |table: &mut Table| table.values_mut().for_each(counts::Count::forget_bytes);
        bare(&mut both.traced);
        bare(&mut both.counted);
    });
}

/// Debian's LAMMPS and one of its examples: the atoms' values agree to the last digit.
#[test]
fn lammps_melts_alike() {
    let Some(dir) = folder() else { return };
    let arguments = "-in /usr/share/lammps/examples/melt/in.melt -log none";
    let jobs = [2, 4].map(|ranks| job(ranks, "/usr/bin/lmp", arguments));
    // Step, temperature, energies, pressure.
    let thermo = |text: &str| {
        lines(text, |line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() == 6 && words.iter().all(|word| word.parse::<f64>().is_ok())
        })
    };
    run(
        &dir,
        Mpi::OpenMpi,
        jobs.to_vec(),
        &Needs::default(),
        |both, jobs| {
            let (own, theirs) = (thermo(&both.own), thermo(&both.theirs));
            assert!(own.len() >= 6 * jobs.len(), "{}", both.own);
            assert_eq!(own, theirs);
        },
    );
}

/// Input of the HPC Challenge: Linpack's input, followed by matrices for PTRANS.
const HPCC_INPUT: &str = "two lines that are not read\n\n\
    HPL.out\n8\n1\n200\n1\n32\n0\n1\n2\n2\n16.0\n1\n2\n1\n4\n1\n2\n1\n1\n1\n1\n1\n1\n2\n64\n0\n0\n1\n8\n\
    a line that is not read\n0\n1200\n0\n40\n";

/// The parts of the HPC Challenge and their results.
fn passed(text: &str) -> Vec<String> {
    let said = lines(text, |line| {
        line.contains("PASSED") || line.contains("FAILED") || line.starts_with("Success=")
    });
    let word = |line: &String| line.split_whitespace().next_back().map(str::to_owned);
    said.iter().filter_map(word).collect()
}

/// The HPC Challenge, with small sizes of all parts.
fn hpcc(mpi: Mpi, program: &str) {
    let Some(dir) = folder() else { return };
    let before = format!("cat >hpccinf.txt <<'END'\n{HPCC_INPUT}END\n");
    let needs = Needs {
        before: &before,
        after: "cat hpccoutf.txt\n",
        file: None,
    };
    run(&dir, mpi, vec![job(4, program, "")], &needs, |both, _| {
        let (own, theirs) = (passed(&both.own), passed(&both.theirs));
        assert!(own.iter().any(|line| line == "Success=1"), "{}", both.own);
        assert_eq!(own, theirs, "{}", both.theirs);
    });
}

#[test]
fn hpc_challenge_over_mpich() {
    hpcc(Mpi::Mpich, "bin/hpcc");
}

#[test]
fn hpc_challenge_over_open_mpi() {
    hpcc(Mpi::OpenMpi, "/usr/bin/hpcc");
}

/// The modules of mpi4py's suite that need no shared file system of nodes, and start no processes.
const MODULES: &[&str] = &[
    "address",
    "attributes",
    "cco_buf",
    "cco_nb_buf",
    "cco_obj",
    "cco_obj_inter",
    "cco_vec",
    "comm",
    "comm_inter",
    "comm_topo",
    "datatype",
    "environ",
    "errhandler",
    "errorcode",
    "grequest",
    "group",
    "info",
    "msgzero",
    "objmodel",
    "op",
    "p2p_buf",
    "p2p_buf_matched",
    "p2p_obj",
    "p2p_obj_matched",
    "pack",
    "pickle",
    "request",
    "status",
];
const MPI4PY: &str = "3.1.4";

/// mpi4py's source with its tests, which Debian's package lacks: from the registry, by its ordinary client.
/// `None`, with a message, if it is not available.
fn mpi4py(dir: &Dir) -> Option<PathBuf> {
    let fetched = Command::new("pip")
        .args(["download", "--quiet", "--no-deps", "--no-binary", ":all:"])
        .arg(format!("mpi4py=={MPI4PY}"))
        .arg("--dest")
        .arg(dir.path(""))
        .output();
    let archive = dir.path(&format!("mpi4py-{MPI4PY}.tar.gz"));
    if !archive.exists() {
        eprintln!(
            "SKIPPED: pip cannot fetch mpi4py's source (apt install python3-pip): {fetched:?}"
        );
        return None;
    }
    Some(archive)
}

/// Each module with 2 ranks and with 4.
fn modules() -> Vec<Job> {
    let suite = format!("-m unittest discover -s /root/mpi4py-{MPI4PY}/test");
    let all = [2, 4]
        .into_iter()
        .flat_map(|ranks| MODULES.iter().map(move |module| (ranks, module)));
    all.map(|(ranks, module)| {
        let arguments = format!("{suite} -p test_{module}.py");
        job(ranks, "/usr/bin/python3", &arguments)
    })
    .collect()
}

/// The number of executed and skipped tests in each rank, and their result, without an order: ranks print
/// them at different times and in several pieces, which may mix.
fn ran(text: &str) -> Vec<String> {
    let text = text
        .split_once("PEER 0 begins")
        .map_or("", |(_, text)| text);
    let numbered = |word: &str, rest: &str| {
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        format!("{word}{number}")
    };
    let mut said: Vec<String> = ["Ran ", "skipped=", "failures=", "errors=", "OK", "FAILED"]
        .into_iter()
        .flat_map(|word| {
            text.match_indices(word)
                .map(move |(at, _)| numbered(word, &text[at + word.len()..]))
        })
        .collect();
    said.sort();
    said
}

#[test]
fn what_ranks_say_is_found_in_each_others_words() {
    let whole = "PEER 0 begins\nRan 5 tests in 1s\n\nOK (skipped=1)\nRan 5 tests in 1s\n\nOK\n";
    let mixed =
        "OK\nPEER 0 begins\n.Ran 5 tests in 2s\n.Ran 5 tests in 3s\n\nOK. (skipped=1)\n.OKs\n";
    let failed = "PEER 0 begins\nRan 5 tests in 1s\n\nFAILED (errors=1)\nRan 5 tests in 1s\n\nOK\n";
    assert_eq!(ran(whole), ["OK", "OK", "Ran 5", "Ran 5", "skipped=1"]);
    assert_eq!(ran(mixed), ran(whole));
    assert_ne!(ran(failed), ran(whole));
}

#[test]
fn mpi4py_tests_itself_alike() {
    let Some(dir) = folder() else { return };
    let Some(archive) = mpi4py(&dir) else { return };
    let before = format!(
        "tar -xzf mpi4py-{MPI4PY}.tar.gz\n\
         for node in $others; do belljar-rsh $node tar -xzf /root/mpi4py-{MPI4PY}.tar.gz -C /root; done\n"
    );
    let needs = Needs {
        before: &before,
        after: "",
        file: Some(&archive),
    };
    run(&dir, Mpi::OpenMpi, modules(), &needs, |both, jobs| {
        assert!(ran(&both.own).len() > jobs.len(), "{}", both.own);
        assert_eq!(ran(&both.own), ran(&both.theirs), "{}", both.theirs);
        assert_eq!(verdicts(&both.own, jobs), verdicts(&both.theirs, jobs));
    });
}
