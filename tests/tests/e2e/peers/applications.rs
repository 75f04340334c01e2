//! Applications: Fortran programs that do in small what the NAS Parallel Benchmarks do, mpi4py's test
//! suite, LAMMPS' melt and the HPC Challenge.
//!
//! Natively they run the code that a processor of the nodes' level would pick, so that numbers can be
//! compared to the last digit.

use std::path::PathBuf;
use std::process::Command;

use belljar_tests::Dir;

use super::counts::{self, Table, differences};
use super::jobs::{Job, Mpi, Needs};
use super::{Both, long, run_both, verdicts};

const IMAGE: &str = "bookworm-applications";

fn job(ranks: u32, program: &str, arguments: &str) -> Job {
    Job {
        program: program.to_owned(),
        ranks,
        arguments: arguments.to_owned(),
    }
}

/// Runs `jobs`, unless that takes longer than is wanted or cannot be done here.
fn run(mpi: Mpi, nodes: u32, jobs: &[Job], needs: &Needs<'_>) -> Option<Both> {
    if !long() {
        return None;
    }
    let dir = Dir::new()?;
    run_both(&dir, IMAGE, mpi, nodes, jobs, needs)
}

/// Asserts that all calls and bytes are those that the layer counted.
fn assert_counts(both: &Both, jobs: &[Job]) {
    let mut wrong = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        let ranks = counts::ranks(&both.counted, number);
        assert_eq!(
            ranks.len(),
            job.ranks as usize,
            "{}: {}",
            job.program,
            both.theirs
        );
        let found = differences(&both.counted, &both.traced, number, &job.program);
        wrong.extend(
            found
                .into_iter()
                .map(|line| format!("{}: {line}", job.program)),
        );
    }
    eprintln!("{} jobs, {} calls", jobs.len(), counts::calls(&both.traced));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The lines of a text that `wanted` wants, without what surrounds them.
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

/// Asserts that the programs say the same natively and on nodes.
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

/// What MPICH's binding for `mpi_f08` makes by C functions that a layer can stand before: calls with
/// buffers. The others it makes by their PMPI_ names.
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
    let jobs = fortran();
    let Some(mut both) = run(Mpi::Mpich, 4, &jobs, &Needs::default()) else {
        return;
    };
    assert_says_the_same(&both, &jobs);
    let past_the_layer = |(job, _, function): &(usize, u64, String)| {
        !jobs[*job].program.ends_with("f08") || WITH_BUFFERS.contains(&function.as_str())
    };
    both.counted.retain(|key, _| past_the_layer(key));
    both.traced.retain(|key, _| past_the_layer(key));
    assert_counts(&both, &jobs);
}

/// Open MPI's Fortran entry points do not come past a layer for C, and the one for them counts calls.
#[test]
fn fortran_over_open_mpi() {
    let jobs = fortran();
    let needs = Needs {
        before: "layer=/usr/local/openmpi/lib/count-fortran.so\n",
        ..Needs::default()
    };
    let Some(mut both) = run(Mpi::OpenMpi, 4, &jobs, &needs) else {
        return;
    };
    assert_says_the_same(&both, &jobs);
    assert!(counts::sent(&both.traced) > 0);
    let bare = |table: &mut Table| table.values_mut().for_each(counts::Count::forget_bytes);
    bare(&mut both.traced);
    bare(&mut both.counted);
    assert_counts(&both, &jobs);
}

/// Debian's own LAMMPS and its own example: what the atoms do is the same to the last digit.
#[test]
fn lammps_melts_alike() {
    let arguments = "-in /usr/share/lammps/examples/melt/in.melt -log none";
    let jobs = [
        job(2, "/usr/bin/lmp", arguments),
        job(4, "/usr/bin/lmp", arguments),
    ];
    let Some(both) = run(Mpi::OpenMpi, 4, &jobs, &Needs::default()) else {
        return;
    };
    // Step, temperature, energies, pressure.
    let thermo = |text: &str| {
        lines(text, |line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() == 6 && words.iter().all(|word| word.parse::<f64>().is_ok())
        })
    };
    let (own, theirs) = (thermo(&both.own), thermo(&both.theirs));
    assert!(own.len() >= 12, "{}", both.own);
    assert_eq!(own, theirs);
    assert_counts(&both, &jobs);
}

/// What the HPC Challenge is to do: as Linpack's own input, with matrices for PTRANS after it.
const HPCC_INPUT: &str = "two lines that are not read\n\n\
    HPL.out\n8\n1\n200\n1\n32\n0\n1\n2\n2\n16.0\n1\n2\n1\n4\n1\n2\n1\n1\n1\n1\n1\n1\n2\n64\n0\n0\n1\n8\n\
    a line that is not read\n0\n1200\n0\n40\n";

/// The HPC Challenge, each part in small.
fn hpcc(mpi: Mpi, program: &str) {
    let jobs = [job(4, program, "")];
    let before = format!("cat >hpccinf.txt <<'END'\n{HPCC_INPUT}END\n");
    let needs = Needs {
        before: &before,
        after: "cat hpccoutf.txt\n",
        file: None,
    };
    let Some(both) = run(mpi, 4, &jobs, &needs) else {
        return;
    };
    let verdict = |text: &str| {
        lines(text, |line| {
            line.contains("PASSED") || line.contains("FAILED") || line.starts_with("Success=")
        })
        .iter()
        .map(|line| {
            line.split_whitespace()
                .next_back()
                .unwrap_or_default()
                .to_owned()
        })
        .collect::<Vec<_>>()
    };
    let (own, theirs) = (verdict(&both.own), verdict(&both.theirs));
    assert!(own.iter().any(|line| line == "Success=1"), "{}", both.own);
    assert_eq!(own, theirs, "{}", both.theirs);
    assert_counts(&both, &jobs);
}

#[test]
fn hpc_challenge_over_mpich() {
    hpcc(Mpi::Mpich, "bin/hpcc");
}

#[test]
fn hpc_challenge_over_open_mpi() {
    hpcc(Mpi::OpenMpi, "/usr/bin/hpcc");
}

/// The modules of mpi4py's suite that need no file system that nodes share, and start no processes.
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

/// mpi4py's source, which has its tests, as Debian's package does not: from the registry, by its own
/// client. `None`, said loudly, where that is not to be had.
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

#[test]
fn mpi4py_tests_itself_alike() {
    if !long() {
        return;
    }
    let Some(dir) = Dir::new() else { return };
    let Some(archive) = mpi4py(&dir) else { return };
    let suite = format!("-m unittest discover -s /root/mpi4py-{MPI4PY}/test");
    let jobs: Vec<Job> = [2, 4]
        .into_iter()
        .flat_map(|ranks| MODULES.iter().map(move |module| (ranks, module)))
        .map(|(ranks, module)| {
            job(
                ranks,
                "/usr/bin/python3",
                &format!("{suite} -p test_{module}.py"),
            )
        })
        .collect();
    let before = format!(
        "tar -xzf mpi4py-{MPI4PY}.tar.gz\n\
         for node in $others; do belljar-rsh $node tar -xzf /root/mpi4py-{MPI4PY}.tar.gz -C /root; done\n"
    );
    let needs = Needs {
        before: &before,
        after: "",
        file: Some(&archive),
    };
    let Some(both) = run_both(&dir, IMAGE, Mpi::OpenMpi, 4, &jobs, &needs) else {
        return;
    };
    let ran = |text: &str| {
        let lines = lines(text, |line| {
            line.starts_with("Ran ") || line.starts_with("OK") || line.starts_with("FAILED")
        });
        lines
            .iter()
            .map(|line| line.split(" in ").next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(ran(&both.own).len() > MODULES.len(), "{}", both.own);
    assert_eq!(ran(&both.own), ran(&both.theirs), "{}", both.theirs);
    assert_eq!(verdicts(&both.own, &jobs), verdicts(&both.theirs, &jobs));
    assert_counts(&both, &jobs);
}
