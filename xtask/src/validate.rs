//! `cargo xtask validate`: replays held against runs.
//!
//! Programs run as whole systems on several networks, and each trace is replayed on each other network, without looking at the run there. Predicted and real times are
//! compared in total, by rank, by function and call by call, as totals hide errors that cancel each other. The table is `docs/accuracy.md`; no program is left
//! out of it. Runs that are there already are not run again. Called by `main`.

/// How far a replay is off.
mod compare;
/// What SimGrid makes of the same trace.
mod simgrid;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::packages::{self, BUILD, TEST};
use crate::shell;
use compare::{Errors, errors};

/// What to validate.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only programs whose names have this in them; the table is printed, and the page stays as it is.
    #[arg(long)]
    only: Option<String>,
    /// The command to validate; built when absent.
    #[arg(long, value_name = "FILE")]
    belljar: Option<PathBuf>,
}

/// A network on which programs run.
struct Network {
    name: &'static str,
    /// Keys of the scenario.
    keys: &'static [&'static str],
    /// Keys that make it the base again. A tree of one switch is a star.
    back: &'static [&'static str],
}

/// The first is the base: from it all others are predicted, and from all others it.
const NETWORKS: [Network; 5] = [
    Network {
        name: "base",
        keys: &[],
        back: &[],
    },
    Network {
        name: "1 Gb/s",
        keys: &["network.bandwidth=1 Gb/s"],
        back: &["network.bandwidth=10 Gb/s"],
    },
    Network {
        name: "100 Gb/s",
        keys: &["network.bandwidth=100 Gb/s"],
        back: &["network.bandwidth=10 Gb/s"],
    },
    Network {
        name: "20 us",
        keys: &["network.latency=20 us"],
        back: &["network.latency=1 us"],
    },
    Network {
        name: "tree",
        keys: &[
            "network.topology=tree",
            "network.fanout=2",
            "network.uplink-latency=10 us",
            "network.uplink-bandwidth=5 Gb/s",
        ],
        back: &["network.fanout=64"],
    },
];

/// What the base network is, in words.
const BASE: &str = "a star of 10 Gb/s and 1 us";

/// Kernels of `scenarios/validate/kernels.c`.
const KERNELS: [&str; 8] = ["halo", "cg", "ft", "is", "lu", "mg", "bfs", "osu"];

/// Nodes that kernels run on.
const NODES: [u32; 2] = [4, 8];

/// A program as it is validated.
struct Program {
    name: String,
    nodes: u32,
    /// Words of `belljar` before the network's keys.
    words: Vec<String>,
}

/// Runs, replays, and writes the table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&[BUILD, TEST])?;
    let binary = match &arguments.belljar {
        Some(binary) => {
            fs::canonicalize(binary).with_context(|| format!("cannot find {}", binary.display()))?
        }
        None => shell::build_belljar(shell::Profile::Release)?,
    };
    let belljar = binary.to_str().context("the command's path is not text")?;
    for image in ["mpich", "gromacs"] {
        let recipe = format!("images/bookworm-{image}.toml");
        shell::run(belljar, &["image", "build", "--keep-lock", &recipe])?;
    }
    let folder = crate::root().join("target/validate");
    fs::create_dir_all(&folder)?;
    let kernels = folder.join("kernels");
    let compiled = kernels.to_string_lossy();
    let source = "scenarios/validate/kernels.c";
    shell::run("mpicc.mpich", &["-O1", "-w", "-o", &compiled, source])?;
    let wanted = |name: &str| {
        arguments
            .only
            .as_ref()
            .is_none_or(|only| name.contains(only))
    };
    let mut rows = Vec::new();
    for program in programs(&kernels) {
        if wanted(&program.name) {
            rows.extend(validate(belljar, &folder, &program)?);
        }
    }
    if rows.is_empty() {
        bail!("no program has {:?} in its name", arguments.only);
    }
    let page = page(&rows);
    print!("{page}");
    if arguments.only.is_none() {
        fs::write(crate::root().join("docs/accuracy.md"), page)?;
    }
    Ok(())
}

fn programs(kernels: &Path) -> Vec<Program> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let scenario = |name: &str, file: &str, nodes: u32, more: &[&str]| Program {
        name: name.to_owned(),
        nodes,
        words: words(&[&["run", file, "-q"], more].concat()),
    };
    let mut programs = vec![
        scenario("pingpong", "scenarios/pingpong.toml", 2, &[]),
        scenario(
            "hpl",
            "scenarios/hpl-4.toml",
            4,
            &["--set", "trace.sample={}"],
        ),
        scenario(
            "gromacs",
            "scenarios/gromacs-16.toml",
            4,
            &[
                "--nodes",
                "4",
                "--set",
                "trace.sample={}",
                "--set",
                "network.topology=star",
                "--set",
                "network.routing=shortest",
            ],
        ),
    ];
    for nodes in NODES {
        programs.extend(KERNELS.into_iter().map(|kernel| Program {
            name: kernel.to_owned(),
            nodes,
            words: words(&[
                "mpirun",
                "-n",
                &nodes.to_string(),
                &kernels.to_string_lossy(),
                kernel,
            ]),
        }));
    }
    programs
}

/// A prediction, held against what was.
struct Row {
    program: String,
    nodes: u32,
    from: &'static str,
    to: &'static str,
    errors: Errors,
    /// How far SimGrid's totals are off: as it comes, and with the hosts' costs that replay has; `None` where it breaks down.
    simgrid: [Option<f64>; 2],
}

/// Runs a program on all networks, and replays it from and to the base.
fn validate(belljar: &str, folder: &Path, program: &Program) -> Result<Vec<Row>> {
    let directory = |network: &Network| -> PathBuf {
        let network = network.name.replace([' ', '/'], "");
        folder.join(format!("{}-{}-{network}", program.name, program.nodes))
    };
    for network in &NETWORKS {
        let out = directory(network);
        if out.exists() {
            continue;
        }
        let out = out.to_string_lossy().into_owned();
        let mut own = vec!["--out".to_owned(), out];
        for key in network.keys {
            own.extend(["--set".to_owned(), (*key).to_owned()]);
        }
        let mut words = program.words.clone();
        // Options of mpirun come before the program.
        let place = if words[0] == "mpirun" { 1 } else { words.len() };
        words.splice(place..place, own);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        shell::run(belljar, &words)?;
    }
    let base = &NETWORKS[0];
    let others = NETWORKS.iter().skip(1);
    let pairs = others.flat_map(|other| [(base, other), (other, base)]);
    let row = |(from, to): (&'static Network, &'static Network)| {
        // What the other network changed is changed back.
        let keys = if to.keys.is_empty() {
            from.back
        } else {
            to.keys
        };
        let errors = errors(belljar, &directory(from), &directory(to), keys)?;
        let played = simgrid::totals(belljar, &directory(from), keys)?;
        Ok(Row {
            program: program.name.clone(),
            nodes: program.nodes,
            from: from.name,
            to: to.name,
            simgrid: played.map(|total| total.map(|total_ps| total_ps / errors.real_ps - 1.0)),
            errors,
        })
    };
    pairs.map(row).collect()
}

/// The page: what it is, the table, and what it comes down to.
fn page(rows: &[Row]) -> String {
    let mut page = String::from(
        "# How far replays are off\n\nMade by `cargo xtask validate`. Each program ran as a whole system on each network, and was replayed (model packet) from a \
trace taken on another one.\n",
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "*base* is {BASE}; the others change what their names say, and *tree* has two nodes or switches below each switch, with 10 us and 5 Gb/s between switches.\n\n\
*run* is the time of the run on the second network, from the first call's entry to the last's return, some 30 ms of `MPI_Init` and `MPI_Finalize` included, and *total* the error of its prediction; \
*rank* is the error of the worst rank's time. *main part* is the error over the time between `MPI_Init` and `MPI_Finalize` ([definition](replay.md)). \
*functions* and *calls* leave out `MPI_Init` and `MPI_Finalize`: sums over functions, and over calls, of the errors of each, over the time in calls of the run. The \
kernels are those of [scenarios/validate/kernels.c](../scenarios/validate/kernels.c).\n\n\
*SMPI* is the error of the total of SimGrid's `smpirun -replay`, of the same trace as `belljar trace export --format ti` writes it, on the other network as its platform, \
with what `MPI_Init` and `MPI_Finalize` took in the trace: with SimGrid's own settings, and *calibrated* with the hosts' costs that replay has (`smpi/os`, `smpi/or`), \
the library's rendezvous threshold, collective operations as the messages of the library that ran (`--messages`), and no factors on bandwidth and latency but the frames' headers.\n\n\
| program | nodes | traced on | replayed on | run | total | main part | rank | functions | calls | SMPI | calibrated |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for row in rows {
        let Errors {
            real_ps,
            total,
            real_main_ps,
            main,
            rank,
            functions,
            calls,
        } = row.errors;
        let calls = calls.map_or_else(
            || "other calls".to_owned(),
            |calls| format!("{:.1} %", calls * 100.0),
        );
        let [simgrid, calibrated] = row.simgrid.map(|error| {
            error.map_or_else(
                || "fails".to_owned(),
                |error| format!("{:+.1} %", error * 100.0),
            )
        });
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {:.1} ms | {:+.1} % | {:+.1} % of {:.1} ms | {:.1} % | {:.1} % | {calls} | {simgrid} | {calibrated} |",
            row.program,
            row.nodes,
            row.from,
            row.to,
            real_ps / 1e9,
            total * 100.0,
            main * 100.0,
            real_main_ps / 1e9,
            rank * 100.0,
            functions * 100.0
        );
    }
    let _ = writeln!(page, "\nErrors of {} predictions:\n", rows.len());
    let _ = writeln!(page, "| | mean | worst |\n|---|---|---|");
    let totals = |of: fn(&Row) -> Option<f64>| -> Vec<f64> {
        rows.iter().filter_map(of).map(f64::abs).collect()
    };
    for (whose, errors) in [
        ("replay, main part", totals(|row| Some(row.errors.main))),
        ("replay, total", totals(|row| Some(row.errors.total))),
        (
            "replay, by function",
            totals(|row| Some(row.errors.functions)),
        ),
        ("replay, by call", totals(|row| row.errors.calls)),
        ("SMPI, total", totals(|row| row.simgrid[0])),
        ("SMPI, calibrated, total", totals(|row| row.simgrid[1])),
    ] {
        let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        let worst = errors.into_iter().fold(0.0, f64::max);
        let _ = writeln!(
            page,
            "| {whose} | {:.1} % | {:.1} % |",
            mean * 100.0,
            worst * 100.0
        );
    }
    page
}
