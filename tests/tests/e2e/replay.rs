//! A replay of a traced run without guests, compared with the run itself and with a run on the other network.

mod background;
mod epochs;
mod model;
mod resume;

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// Small and large halo exchanges, with work between them, and the usual collective operations.
const HALOS: &str = r#"#include <mpi.h>
#include <stdlib.h>
enum { MOST = 100000 };
static char out[MOST], in[MOST];
static double work(int n)
{
    volatile double sum = 0;
    for (int i = 0; i < n; i++)
        sum += i * 0.5;
    return sum;
}
int main(int argc, char **argv)
{
    int rank, size;
    double mine = 1, all;
    MPI_Request r[4];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 0; step < 60; step++) {
        int bytes = step % 3 == 0 ? 64 : step % 3 == 1 ? 6000 : MOST;
        MPI_Irecv(in, bytes, MPI_BYTE, last, 1, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD, &r[1]);
        mine += work(20000 + 2000 * rank);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (step % 10 == 0)
            MPI_Bcast(out, 20000, MPI_BYTE, step % size, MPI_COMM_WORLD);
        if (step % 20 == 0)
            MPI_Alltoall(out, 1000, MPI_BYTE, in, 1000, MPI_BYTE, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"#;

/// The result of a replay of the run in `out`.
fn replayed(dir: &Dir, out: &str, more: &[&str]) -> Value {
    let arguments: Vec<&str> = ["replay", out, "--json"]
        .iter()
        .chain(more)
        .copied()
        .collect();
    let (told, error, code) = dir.call(&arguments);
    assert_eq!(code, Some(0), "{error}");
    serde_json::from_str(&told).expect("JSON")
}

/// Picoseconds in the functions between a program's beginning and its end.
fn inside(told: &Value, key: &str) -> f64 {
    let functions = told["functions"].as_array().expect("functions");
    let between = functions.iter().filter(|of| {
        let name = of["function"].as_str().unwrap_or("");
        name != "MPI_Init" && name != "MPI_Finalize"
    });
    between.map(|of| of[key].as_f64().unwrap_or(0.0)).sum()
}

/// Two ranks that wait for each other's message before they send theirs.
const DEADLOCK: &str = r#"#include <mpi.h>
static void takes(int other)
{
    int word;
    MPI_Recv(&word, 1, MPI_INT, other, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    takes(1 - rank);
    MPI_Send(&rank, 1, MPI_INT, 1 - rank, 77, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn a_deadlock_is_told_with_ranks_calls_and_call_sites() {
    let Some(dir) = Dir::new() else { return };
    let how = ["-O1", "-g", "-fno-inline"];
    if !compiled(&dir, "mpicc.mpich", "deadlock", DEADLOCK, &how) {
        return;
    }
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 ./deadlock")
        .limited("4500 ms")
        .working("files = { deadlock = \"deadlock\" }\nstop-when-stuck = false");
    let sites = ["--set", "trace.frames=2"];
    let run = dir.run(&scenario, "out", &sites);
    assert!(
        run.stderr.contains("the limit of virtual time"),
        "{}",
        run.stderr
    );
    let (told, error, code) = dir.call(&["replay", "out.incomplete"]);
    assert_eq!(code, Some(1), "{told}{error}");
    for rank in [0, 1] {
        let other = 1 - rank;
        let call = format!("of rank {rank} (job 0), MPI_Recv; traced:");
        assert!(told.contains(&call), "{told}{error}");
        let what = format!("source={other}, tag=77");
        assert!(told.contains(&what), "{told}{error}");
    }
    assert!(
        told.contains("takes") && told.contains("deadlock.c:5"),
        "{told}{error}"
    );
}

#[test]
fn a_replay_tells_what_a_run_on_the_other_network_is() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "halos", HALOS, &["-O1"]) {
        return;
    }
    let scenario = Scenario::new(4, "mpiexec.hydra -n 4 ./halos");
    let scenario = scenario.working("files = { halos = \"halos\" }");
    let network = |latency: &str, bandwidth: &str| {
        [
            format!("network.latency=\"{latency}\""),
            format!("network.bandwidth=\"{bandwidth}\""),
        ]
    };
    let near = network("1 us", "10 Gb/s");
    let far = network("15 us", "2 Gb/s");
    for (out, network) in [("near", &near), ("far", &far)] {
        let [latency, bandwidth] = network;
        let _ = dir
            .run(&scenario, out, &["--set", latency, "--set", bandwidth])
            .success();
    }
    for model in ["packet", "flow", "loggops"] {
        let same = replayed(&dir, "near", &["--model", model]);
        let (total, traced) = (&same["total_ps"], &same["traced_ps"]);
        let [total, traced] = [total, traced].map(|it| it.as_f64().expect("a time"));
        // Replays of large messages that share links in a ring are too long: by 2.1 % with Debian's kernel 6.1.0-57.
        assert!(
            (total / traced - 1.0).abs() < 0.03,
            "{model}: {total} {traced}"
        );
    }
    // From each network to the other: the whole run and its calls, compared with the real times there.
    for (from, to, network) in [("near", "far", &far), ("far", "near", &near)] {
        let [latency, bandwidth] = network;
        let told = replayed(&dir, from, &["--set", latency, "--set", bandwidth]);
        assert_eq!(told["stuck"].as_array().map(Vec::len), Some(0));
        let truth = replayed(&dir, to, &["--model", "loggops"]);
        let whole = |of: &Value, key: &str| of[key].as_f64().expect("a time");
        let off = whole(&told, "total_ps") / whole(&truth, "traced_ps") - 1.0;
        let calls = inside(&told, "total_ps") / inside(&truth, "traced_ps") - 1.0;
        eprintln!("{from} to {to}: {off:+.4} in all, {calls:+.4} in calls");
        // From far to near +4.3 % in all and +16.1 % in calls with Debian's kernel 6.1.0-57.
        assert!(off.abs() < 0.06, "{from} to {to}: {off}");
        assert!(calls.abs() < 0.20, "{from} to {to}: {calls}");
    }
    // The replay as a run directory, which other commands read.
    let (_, error, code) = dir.call(&["replay", "near", "--set", &far[0], "--out", "played"]);
    assert_eq!(code, Some(0), "{error}");
    let (diff, error, code) = dir.call(&["trace", "diff", "near", "played"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(diff.contains("The programs do the same"), "{diff}");
    varied(&dir, &far);
    mixed(&dir);
    contending(&dir);
    resume::messages(&dir);
    calibrated(&dir);
    exported(&dir);
    exported_as_read(&dir);
    // A placement that does not fit onto the network.
    dir.write("hosts", "node0:2\nnode9:2\n");
    let (_, error, code) = dir.call(&["replay", "near", "--hostfile", "hosts"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("line 2: the network has no host \"node9\""),
        "{error}"
    );
}

/// Many replays at once give the same results as single ones, also by loop of the program.
fn varied(dir: &Dir, far: &[String; 2]) {
    let latencies = "network.latency=[1 us, 15 us]";
    let bandwidth = &far[1].replace('=', "=[");
    let bandwidth = format!("{bandwidth}]");
    let models = "model=[packet, flow]";
    let words = ["--vary", latencies, "--vary", &bandwidth, "--vary", models];
    let told = replayed(
        dir,
        "near",
        &[&words[..], &["--csv-file", "table.csv"]].concat(),
    );
    let rows = told.as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    let last = replayed(
        dir,
        "near",
        &["--set", &far[0], "--set", &far[1], "--model", "flow"],
    );
    assert_eq!(rows[3]["total_ps"], last["total_ps"]);
    assert_ne!(rows[0]["total_ps"], rows[1]["total_ps"]);
    assert_ne!(rows[0]["total_ps"], rows[2]["total_ps"]);
    let table = std::fs::read_to_string(dir.path("table.csv")).expect("a table");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 5, "{table}");
    assert!(lines[0].starts_with("network.latency,network.bandwidth,model,total_ps,"));
    let total = last["total_ps"].to_string();
    assert!(
        lines[4].starts_with(&format!("15 us,2 Gb/s,flow,{total},")),
        "{table}"
    );
    let shapes = [
        "topology=\"torus\",dimensions=[2,2]",
        "topology=\"tree\",fanout=2",
    ]
    .map(|shape| format!("{{{shape}}}"));
    let networks = format!("network=[{}]", shapes.join(","));
    let words = ["--vary", &networks, "--set", &far[0]];
    let rows = replayed(dir, "near", &words);
    for (number, name) in ["torus 2x2", "tree fanout=2"].into_iter().enumerate() {
        assert_eq!(rows[number]["values"][0][1], name);
        let alone = format!("network={}", shapes[number]);
        let alone = replayed(dir, "near", &["--set", &alone, "--set", &far[0]]);
        assert_eq!(rows[number]["total_ps"], alone["total_ps"], "{name}");
    }
    let (_, error, code) = dir.call(&["replay", "near", "--vary", "pace=[1, 2]"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("pace does not vary"), "{error}");
    let told = replayed(dir, "near", &["--set", &far[0], "--loops"]);
    let loops = told["loops"].as_array().expect("loops");
    let main = loops.iter().find(|of| of["iterations"] == 4 * 60);
    let main = main.unwrap_or_else(|| panic!("no loop of 60 iterations: {loops:?}"));
    let time = |key: &str| main[key].as_u64().expect("a time");
    assert!(time("total_ps") > time("traced_ps"), "{main}");
    assert!(time("total_ps") <= 4 * told["total_ps"].as_u64().expect("a time"));
}

/// Jobs of the run's kind, on one machine: links carry the run's messages.
fn mixed(dir: &Dir) {
    let mix = r#"
        name = "mix"
        hosts = 6
        scheduler = ["fcfs", "easy"]
        selection = ["linear", "random"]
        snapshots = ["1 us"]
        network = { bandwidth = "10 Gb/s" }
        [[jobs]]
        name = "halos"
        count = 3
        traffic = { trace = "near" }
        [[jobs]]
        name = "small"
        ranks = 2
        duration = "1 ms"
    "#;
    dir.write("mix.toml", mix);
    let (told, error, code) = dir.call(&["simulate", "mix.toml", "--out", "mixed", "--json"]);
    assert_eq!(code, Some(0), "{error}");
    let rows: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(rows.as_array().map(Vec::len), Some(4));
    assert_eq!(rows[0]["ended"], 4);
    // Four of six hosts each: one after the other. The small one waits for the others, or overtakes them.
    assert!(
        rows[0]["mean_wait_s"].as_f64() > rows[2]["mean_wait_s"].as_f64(),
        "{told}"
    );
    let (matrix, error, code) = dir.call(&["trace", "matrix", "near", "--by", "message", "--json"]);
    assert_eq!(code, Some(0), "{error}");
    let matrix: Value = serde_json::from_str(&matrix).expect("JSON");
    let pairs = matrix["pairs"].as_array().expect("pairs").iter();
    let sent: f64 = pairs
        .map(|pair| pair["bytes"].as_f64().expect("bytes"))
        .sum();
    let read = |name: &str| std::fs::read_to_string(dir.path("mixed").join(name)).expect("a file");
    let links = read("0/links.csv");
    let mean = links.lines().skip(1).map(|line| {
        line.split(',')
            .nth(3)
            .expect("a mean")
            .parse::<f64>()
            .expect("a number")
    });
    let seconds = rows[0]["makespan_s"].as_f64().expect("seconds");
    // Each message crosses two links, and there are three jobs.
    let carried = mean.sum::<f64>() * seconds / 8.0;
    assert!(
        (carried / (sent * 6.0) - 1.0).abs() < 1e-3,
        "{carried} {sent}"
    );
    assert_eq!(read("0/jobs.csv").lines().count(), 5);
    assert_eq!(read("results.csv").lines().count(), 5);
    let chart = read("0/gantt.svg");
    assert!(chart.contains("halos") && chart.matches("<rect").count() > 4);
    let graph = read("0/0.000s.graphml");
    assert_eq!(graph.matches("<edge ").count(), 12);
    assert!(
        graph.contains("<node id=\"switch0\"><data key=\"kind\">switch</data>"),
        "{graph}"
    );
    dir.write("large.toml", &mix.replace("hosts = 6", "hosts = 3"));
    let (_, error, code) = dir.call(&["simulate", "large.toml"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("job 0 (halos) needs 4 hosts, and the network has 3"),
        "{error}"
    );
}

/// Jobs as their messages: on separate hosts they take the traced time; on shared links they take longer, the more are shared.
fn contending(dir: &Dir) {
    let rows = |network: &str, count: &str| -> Vec<f64> {
        let mix = format!(
            "name = \"mix\"\nhosts = 8\nlevel = \"message\"\nselection = \"random\"\n\
             network = {network}\n[[jobs]]\nname = \"halos\"\ncount = {count}\ntraffic = {{ trace = \"near\" }}\n"
        );
        dir.write("contend.toml", &mix);
        let (told, error, code) = dir.call(&["simulate", "contend.toml", "--json"]);
        assert_eq!(code, Some(0), "{error}");
        let rows: Value = serde_json::from_str(&told).expect("JSON");
        let rows = rows.as_array().expect("rows").iter();
        rows.map(|row| row["mean_stretch"].as_f64().expect("a number"))
            .collect()
    };
    let apart = rows("{ bandwidth = \"10 Gb/s\" }", "2");
    assert!((0.97..1.03).contains(&apart[0]), "{apart:?}");
    let slow = "{ topology = \"tree\", fanout = 2, bandwidth = \"100 Mb/s\" }";
    let shared = rows(slow, "[1, 2]");
    assert!(
        shared[0] > 1.5 && shared[1] > shared[0] * 1.02,
        "{shared:?}"
    );
    let pattern = "name = \"mix\"\nhosts = 8\nlevel = \"message\"\n[[jobs]]\nname = \"small\"\nranks = 2\nduration = \"1 ms\"\n";
    dir.write("contend.toml", pattern);
    let (_, error, code) = dir.call(&["simulate", "contend.toml"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("each job is a traced run"), "{error}");
}

/// Costs that are fitted to the run explain it better, and the replay accepts them.
fn calibrated(dir: &Dir) {
    let words = [
        "replay",
        "calibrate",
        "near",
        "--model",
        "flow",
        "--out",
        "costs.toml",
        "--json",
    ];
    let (told, error, code) = dir.call(&words);
    assert_eq!(code, Some(0), "{error}");
    let fitted: Value = serde_json::from_str(&told).expect("JSON");
    let left = |of: &Value| {
        let part = |key: &str| of[key].as_f64().expect("a time");
        part("more_ps") + part("less_ps")
    };
    let (before, after) = (left(&fitted["before"][0]), left(&fitted["after"][0]));
    assert!(after < before, "{told}");
    let told = replayed(dir, "near", &["--model", "flow", "--costs", "costs.toml"]);
    assert_eq!(left(&told["fit"]), after);
    assert_eq!(told["costs"], fitted["costs"]);
    dir.write(
        "bad.toml",
        &std::fs::read_to_string(dir.path("costs.toml"))
            .expect("costs")
            .replacen("take_in = ", "take_in = -", 1),
    );
    let (_, error, code) = dir.call(&["replay", "near", "--costs", "bad.toml"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("take_in is -"), "{error}");
}

/// The run exported to SimGrid: its actions send the program's messages, and SimGrid's replay ends.
fn exported(dir: &Dir) {
    let (command, error, code) =
        dir.call(&["trace", "export", "near", "--format", "ti", "--out", "ti"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(command.contains("-replay ranks"), "{command}");
    for rank in 0..4 {
        let path = dir.path("ti").join(format!("rank-{rank}.txt"));
        let text = std::fs::read_to_string(path).expect("a rank's actions");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let actions: Vec<Vec<&str>> = lines.map(|it| it.split(' ').collect()).collect();
        assert!(actions.iter().all(|it| it[0] == rank.to_string()));
        let of = |name: &str| actions.iter().filter(|it| it[1] == name).count();
        let counts = ["barrier", "allreduce", "bcast", "alltoall"].map(of);
        // MPI_Init and MPI_Finalize wait for all ranks, as the program's two barriers do.
        assert_eq!(counts, [4, 60, 6, 3]);
        let next = ((rank + 1) % 4).to_string();
        let sent = actions
            .iter()
            .filter(|it| it[1] == "isend" || it[1] == "send");
        let sizes: Vec<u64> = sent
            .map(|it| {
                assert_eq!(it[2], next);
                it[4].parse().expect("bytes")
            })
            .collect();
        let expected: Vec<u64> = (0..60).map(|step| [64, 6000, 100_000][step % 3]).collect();
        assert_eq!(sizes, expected);
    }
    let words: Vec<&str> = "-np 4 -platform platform.xml -hostfile hosts -replay ranks"
        .split(' ')
        .collect();
    match std::process::Command::new("smpirun")
        .args(words)
        .current_dir(dir.path("ti"))
        .output()
    {
        Ok(ended) => {
            let told = String::from_utf8_lossy(&ended.stderr);
            assert!(
                ended.status.success() && told.contains("Simulation time"),
                "{told}"
            );
        }
        Err(error) => {
            eprintln!("SKIPPED: smpirun cannot be run ({error}); Debian's libsimgrid-dev has it")
        }
    }
}

/// The run in the streamed export formats: each has the program's messages.
fn exported_as_read(dir: &Dir) {
    let export = |format: &str| {
        let (_, error, code) = dir.call(&[
            "trace", "export", "near", "--format", format, "--out", format,
        ]);
        assert_eq!(code, Some(0), "{error}");
        dir.path(format)
    };
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).expect("a text");
    let expected: u64 = 4 * 20 * (64 + 6000 + 100_000);
    let messages = read(export("csv").join("messages.csv"));
    let sides: Vec<Vec<&str>> = messages.lines().map(|it| it.split(',').collect()).collect();
    for side in ["send", "receive"] {
        let own = sides.iter().filter(|row| row[1] == side);
        let bytes = own.map(|row| row[10].parse::<u64>().expect("bytes"));
        assert_eq!(bytes.sum::<u64>(), expected, "{side}");
    }
    let text = read(export("chrome"));
    let flows = |kind: &str| text.matches(&format!("\"ph\":\"{kind}\"")).count();
    assert_eq!((flows("s"), flows("f")), (240, 240));
    let records = read(export("paraver").join("trace.prv"));
    let records = records.lines().filter(|line| line.starts_with("3:"));
    assert_eq!(records.count(), 240);
    let schedule = read(export("goal"));
    let halos = ["64b", "6000b", "100000b"].map(|size| {
        let sends = format!(": send {size} to");
        schedule.matches(&sends).count()
    });
    assert!(halos.iter().all(|count| *count >= 80), "{halos:?}");
    for format in ["perfetto", "parquet", "goal-binary"] {
        export(format);
    }
    let archive = export("otf2").join("traces.otf2");
    match std::process::Command::new("otf2-print")
        .arg(archive)
        .output()
    {
        Ok(ended) => {
            let told = String::from_utf8_lossy(&ended.stdout);
            let of = |kind: &str| told.lines().filter(|line| line.starts_with(kind)).count();
            assert_eq!(of("MPI_ISEND ") + of("MPI_SEND "), 240);
            assert_eq!(of("MPI_IRECV ") + of("MPI_RECV "), 240);
        }
        Err(error) => {
            eprintln!("SKIPPED: otf2-print cannot be run ({error}); Debian's otf2-tools has it");
        }
    }
}
