//! Users' programs without a scenario: `belljar mpirun`.
//!
//! They are compiled on this host, as a user would. Without a compiler the test is skipped with a
//! message. One and several ranks on a node, several programs in a job, scripts with input folders and programs with private
//! libraries run; the scenario of a run gives the same bytes again; programs that cannot run are refused in a line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use belljar_tests::{Dir, root};

const HELLO: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, size, sum, length;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const char *word = getenv("WORD");
    printf("%s %s: rank %d of %d on %s, sum %d, word %s\n", argv[0], argc > 1 ? argv[1] : "",
           rank, size, name, sum, word ? word : "none");
    MPI_Finalize();
    return 0;
}
"#;

/// Compiles `source` into `name` in `dir`; `false`, with a message, without `compiler`.
pub(crate) fn compiled(
    dir: &Dir,
    compiler: &str,
    name: &str,
    source: &str,
    flags: &[&str],
) -> bool {
    let file = dir.write(&format!("{name}.c"), source);
    let mut command = Command::new(compiler);
    command.current_dir(dir.path(""));
    let output = command.args(["-o", name]).arg(file).args(flags).output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            true
        }
        Err(_) => {
            eprintln!(
                "SKIPPED: {compiler} is not installed (apt install libmpich-dev libopenmpi-dev)"
            );
            false
        }
    }
}

fn recipe(name: &str) -> String {
    let path = root().join(format!("images/{name}.toml"));
    path.to_str().expect("a plain path").to_owned()
}

/// Runs `belljar mpirun` with `words` into the folder `out`, with success; returns its output.
fn mpirun(dir: &Dir, image: &str, words: &str) -> String {
    let image = recipe(image);
    let mut arguments = vec!["mpirun", "--quiet", "--image", &image, "--out", "out"];
    arguments.extend(words.split(' '));
    let (stdout, stderr, code) = dir.call(&arguments);
    assert_eq!(code, Some(0), "{stdout}\n{stderr}");
    // With --quiet, the program's output is in the run directory alone.
    stdout + &fs::read_to_string(dir.path("out/stdout")).expect("the run has it")
}

#[test]
fn a_program_over_mpich_runs_and_can_be_run_again() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "hello", HELLO, &[]) {
        return;
    }
    let words = "-np 4 -ppn 2 -genv WORD yes --network 100Gb/s,2us ./hello say";
    let said = mpirun(&dir, "bookworm-mpich", words);
    for (rank, node) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        let line = format!("./hello say: rank {rank} of 4 on node{node}, sum 6, word yes");
        assert!(said.contains(&line), "{said}");
    }
    assert!(said.contains("belljar run out/scenario.toml"), "{said}");
    let scenario = fs::read_to_string(dir.path("out/scenario.toml")).unwrap();
    for line in [
        "ranks-per-node = 2",
        "bandwidth = \"100 Gb/s\"",
        "latency = \"2 us\"",
        "# ",
    ] {
        assert!(scenario.contains(line), "{scenario}");
    }
    let arguments = ["run", "out/scenario.toml", "--quiet", "--out", "again"];
    let (_, stderr, code) = dir.call(&arguments);
    assert_eq!(code, Some(0), "{stderr}");
    // Both results are equal, except for the texts of the scenarios.
    dir.outcome("out")
        .assert_same_but(&dir.outcome("again"), &["scenario.toml"]);
}

#[test]
fn a_program_over_open_mpi_needs_nothing_to_be_set() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.openmpi", "hello", HELLO, &[]) {
        return;
    }
    let said = mpirun(
        &dir,
        "bookworm-bindings",
        "-n 4 --npernode 2 --map-by node -x WORD=yes ./hello",
    );
    for (rank, node) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
        let line = format!("rank {rank} of 4 on node{node}, sum 6, word yes");
        assert!(said.contains(&line), "{said}");
    }
}

#[test]
fn several_programs_are_one_job() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "first", HELLO, &[]) {
        return;
    }
    fs::copy(dir.path("first"), dir.path("second")).unwrap();
    let words = "-n 1 -env WORD one ./first a : -n 2 -env WORD two ./second b";
    let said = mpirun(&dir, "bookworm-mpich", words);
    assert!(
        said.contains("./first a: rank 0 of 3 on node0, sum 3, word one"),
        "{said}"
    );
    for rank in [1, 2] {
        assert!(
            said.contains(&format!(
                "./second b: rank {rank} of 3 on node{rank}, sum 3, word two"
            )),
            "{said}"
        );
    }
}

#[test]
fn a_script_and_a_folder_of_input_are_on_every_node() {
    let Some(dir) = Dir::new() else { return };
    let script = dir.write(
        "job.sh",
        "#!/bin/sh\necho \"$(hostname) read $(cat input/deep/number)\"\n",
    );
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(dir.path("input/deep")).unwrap();
    dir.write("input/deep/number", "42\n");
    let said = mpirun(&dir, "bookworm-mpich", "-n 2 --file input ./job.sh");
    for node in [0, 1] {
        assert!(said.contains(&format!("node{node} read 42")), "{said}");
    }
}

const USER: &str = "
#include <mpi.h>
#include <stdio.h>
int triple(int);
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf(\"three times %d is %d\\n\", rank, triple(rank));
    MPI_Finalize();
    return 0;
}
";

#[test]
fn libraries_of_the_programs_own_go_with_it() {
    let Some(dir) = Dir::new() else { return };
    let triple = "int triple(int x) { return 3 * x; }";
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libtriple.so"];
    if !compiled(&dir, "mpicc.mpich", "libtriple.so", triple, &flags) {
        return;
    }
    compiled(
        &dir,
        "mpicc.mpich",
        "found",
        USER,
        &[
            "-L.",
            "-ltriple",
            "-Wl,-rpath,$ORIGIN",
            // As in programs that were linked to a glibc before 2.34.
            "-Wl,--no-as-needed",
            "-l:libdl.so.2",
            "-l:libpthread.so.0",
        ],
    );
    compiled(&dir, "mpicc.mpich", "lost", USER, &["-L.", "-ltriple"]);
    let said = mpirun(&dir, "bookworm-mpich", "-n 2 ./found");
    assert!(said.contains("three times 1 is 3"), "{said}");
    let (stdout, _, _) = dir.call(&["check", "out/scenario.toml"]);
    assert!(stdout.contains("brings libtriple.so"), "{stdout}");
    let image = recipe("bookworm-mpich");
    let (_, stderr, code) = dir.call(&["mpirun", "--image", &image, "-n", "2", "./lost"]);
    assert_ne!(code, Some(0));
    assert!(
        stderr.contains("nor this host has: libtriple.so;"),
        "{stderr}"
    );
    // The same for a user's scenario.
    let text = fs::read_to_string(dir.path("out/scenario.toml")).unwrap();
    dir.write(
        "out/lost.toml",
        &text.replace("/root/.libraries", "/root/elsewhere"),
    );
    let (_, stderr, code) = dir.call(&["check", "out/lost.toml"]);
    assert_ne!(code, Some(0));
    assert!(
        stderr.contains("workload.files: `found` needs libraries"),
        "{stderr}"
    );
}

/// A suitable image is found, and an unsuitable program is refused in one line before any file is
/// made.
#[test]
fn what_cannot_run_is_refused_in_a_line() {
    let Some(dir) = Dir::new() else { return };
    let is_there = ["mpich", "openmpi"].iter().all(|mpi| {
        let compiler = format!("mpicc.{mpi}");
        compiled(&dir, &compiler, mpi, HELLO, &[])
    });
    if !is_there {
        return;
    }
    let folder = root().join("images");
    std::os::unix::fs::symlink(folder, dir.path("images")).unwrap();
    let (scenario, stderr, code) = dir.call(&["mpirun", "--dry-run", "-n", "2", "./openmpi"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(scenario.contains("# has Open MPI"), "{scenario}");
    assert!(!dir.path("belljar-runs").exists());
    dir.write("text", "hello\n");
    let mut arm = fs::read(dir.path("mpich")).unwrap();
    arm[18..20].copy_from_slice(&183_u16.to_le_bytes());
    fs::write(dir.path("arm"), arm).unwrap();
    let mpich = recipe("bookworm-mpich");
    let on_mpich = ["--image", &mpich];
    for (options, words, part) in [
        (&[][..], "-n 2 ./arm", "a program for aarch64"),
        (&[], "-n 2 ./text", "neither an ELF program nor a script"),
        (&[], "-n 2 ./nothing", "there is no file ./nothing"),
        (&[], "-n 2 nothing", "no program `nothing`"),
        (
            &[],
            "-n 5 --nodes 2 ./mpich",
            "5 ranks are more than the 2 slots of 2 nodes",
        ),
        (&[], "./mpich", "how many ranks?"),
        (
            &[],
            "-n 1 ./mpich : -n 1 ./openmpi",
            "linked to both MPICH and Open MPI",
        ),
        (
            &on_mpich,
            "-n 2 ./openmpi",
            "and the image bookworm-mpich has MPICH",
        ),
    ] {
        let mut arguments = vec!["mpirun"];
        arguments.extend(options);
        arguments.extend(words.split(' '));
        let (stdout, stderr, code) = dir.call(&arguments);
        assert_eq!(code, Some(1), "{words}: {stdout}");
        assert!(stderr.contains(part), "{words}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{words}: {stderr}");
    }
    assert!(!dir.path("belljar-runs").exists());
}

/// An existing user's batch script.
const JOB: &str = "#!/bin/sh
#SBATCH --job-name='heat flow'
#SBATCH -N 2 --ntasks-per-node=2
#SBATCH --time=00:10:00 --partition=short
#SBATCH --export=ALL,LEVEL=3
echo job $SLURM_JOB_NAME on $SLURM_JOB_NODELIST with $SLURM_NTASKS, first $1
./hello alone
srun ./hello all
srun -n 1 -N 1 --overlap ./hello one &
srun --overlap --ntasks=2 --ntasks-per-node=1 ./hello two &
wait
mpirun ./hello launched
srun -m cyclic -o task-%t sh -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $(hostname)'
cat task-0 task-1 task-2 task-3 | sort
mkdir made && cd made
srun sh -c 'echo $(hostname) $PWD >part.$SLURM_PROCID'
cat part.*
cd ..
env | sort >environment
ssh -o BatchMode=yes -x me@node1 hostname
";

fn runs_a_batch_script(compiler: &str, image: &str) {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, compiler, "hello", HELLO, &[]) {
        return;
    }
    dir.write("job.sh", JOB);
    let image = recipe(image);
    let words = [
        "sbatch-script",
        "--image",
        &image,
        "--output",
        "environment",
        "--out",
        "out",
        "job.sh",
        "argument",
    ];
    let (stdout, stderr, code) = dir.call(&words);
    assert_eq!(code, Some(0), "{stdout}\n{stderr}");
    let said = fs::read_to_string(dir.path("out/stdout")).expect("the run has it");
    let first = "job heat flow on node[0-1] with 4, first argument";
    assert_eq!(said.lines().next(), Some(first), "{said}");
    assert_eq!(said.lines().last(), Some("node1"), "{said}");
    let tasks = "0 0 0 node0\n1 0 1 node1\n2 1 0 node0\n3 1 1 node1\n";
    let parts = "node0 /root/made\nnode0 /root/made\nnode1 /root/made\nnode1 /root/made\n";
    assert!(said.ends_with(&format!("{tasks}{parts}node1\n")), "{said}");
    holds_what_was_announced(&dir, &image);
    let sizes = sizes_of_jobs(&dir);
    assert_eq!(sizes[..2], [1, 4], "{sizes:?}");
    // Two steps start at the same time.
    assert_eq!(sizes[2] + sizes[3], 3, "{sizes:?}");
    assert_eq!(sizes[4..], [4], "{sizes:?}");
    for (word, ranks, nodes) in [
        ("alone", 1, [1, 0]),
        ("all", 4, [2, 2]),
        ("one", 1, [1, 0]),
        ("two", 2, [1, 1]),
        ("launched", 4, [2, 2]),
    ] {
        // srun passes programs their whole path.
        let start = format!("/hello {word}: rank ");
        let lines = said.lines().filter(|line| line.contains(&start));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), ranks, "{said}");
        for (node, expected) in nodes.into_iter().enumerate() {
            let on = format!("of {ranks} on node{node},");
            let found = lines.iter().filter(|line| line.contains(&on)).count();
            assert_eq!(found, expected, "{word}: {said}");
        }
    }
}

/// The number of ranks of each job of the run in `out`.
fn sizes_of_jobs(dir: &Dir) -> Vec<usize> {
    let (stdout, stderr, code) = dir.call(&["trace", "stat", "out", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    let statistics: serde_json::Value = serde_json::from_str(&stdout).expect("this is JSON");
    let mut sizes = Vec::new();
    for rank in statistics["ranks"].as_array().expect("it has ranks") {
        let job = rank["job"].as_u64().expect("each has a job") as usize;
        sizes.resize(sizes.len().max(job + 1), 0);
        sizes[job] += 1;
    }
    sizes
}

/// `--dry-run` prints the variables that the script in `out` found.
fn holds_what_was_announced(dir: &Dir, image: &str) {
    let words = ["sbatch-script", "--image", image, "--dry-run", "job.sh"];
    let (_, notes, code) = dir.call(&words);
    assert_eq!(code, Some(0), "{notes}");
    let environment = fs::read_to_string(dir.path("out/files/node0/environment"));
    let environment = environment.expect("the run hands it out");
    let lines = notes.lines().filter_map(|line| line.split_once(" = "));
    let announced: Vec<String> = lines
        .map(|(name, value)| format!("{name}={}", value.trim_matches('"')))
        .collect();
    assert!(announced.len() > 10, "{notes}");
    for line in announced {
        assert!(
            environment.lines().any(|own| own == line),
            "{line}: {environment}"
        );
    }
}

#[test]
fn a_batch_script_runs_as_it_is_over_mpich() {
    runs_a_batch_script("mpicc.mpich", "bookworm-mpich");
}

#[test]
fn a_batch_script_runs_as_it_is_over_open_mpi() {
    runs_a_batch_script("mpicc.openmpi", "bookworm-openmpi");
}
