//! `cargo xtask bench hosts`: the costs of several hosts, and the prediction of a fitted
//! model for many hosts. `docs/scaling.md` explains the figures.
//!
//! The hosts are namespaces on this machine, with one thread for nodes on each, and a process
//! of this machine delays the packets between them. With fewer than five processors, or under
//! other load, the results mean little.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{Bench, median, plot};
use crate::packages;
use crate::shell::cargo;

use lab::Lab;
use model::{CLOCK, Fit, Large, Measured, MeasuredCosts, Model};
use pace::Watch;

/// Least squares.
mod fit;
/// The lab with the hosts, a process of the tests' crate.
mod lab;
/// Prediction of runs on many hosts from runs on few.
mod model;
/// Speed of virtual time in a run.
mod pace;
/// Figures of hosts as tables, JSON and lines of a chart.
mod report;

/// Number of nodes, all busy.
const NODES: u32 = 8;
/// Maximum number of hosts.
const HOSTS: u32 = 4;
/// Delay of packets in microseconds: half of the intended addition to the round trip. `None`:
/// the lab's own links.
const LATE: [Option<f64>; 3] = [None, Some(25.0), Some(100.0)];
/// Minimum latencies between nodes, in microseconds.
const LOOKAHEADS: [f64; 3] = [10.0, 100.0, 1000.0];
/// Steps of the loop on each node, more than it can finish.
const STEPS: u64 = 1_000_000_000_000;
/// Output of node 0 when all nodes are busy.
const BUSY: &str = "all are busy";
/// Default number of repetitions.
const RUNS: usize = 2;

/// The large runs for predictions of the model.
const LARGE: Large = Large {
    nodes: 10_000,
    hosts: 64,
    threads: 32,
    lookahead: 0.0,
    round_trip: 0.0,
    frames: 0.0,
};
/// Their minimum latencies between hosts' nodes and round trips, in microseconds, and the
/// frames that each node sends per second.
const LARGE_LOOKAHEADS: [f64; 3] = [1.0, 10.0, 100.0];
const LARGE_ROUND_TRIPS: [f64; 3] = [5.0, 20.0, 50.0];
const LARGE_FRAMES: [f64; 3] = [0.0, 1_000.0, 10_000.0];
/// Million instructions of a thread per second there, for programs instead of the loop.
const SPEED: f64 = 1000.0;
/// Numbers of hosts for the growth.
const GROWTH: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The measured values of a configuration, one for each repetition.
struct Point {
    lookahead: f64,
    hosts: u32,
    asked: Option<f64>,
    /// In microseconds: round trips between hosts, and host time of each span.
    round_trips: Vec<f64>,
    spans: Vec<f64>,
    /// The time of one host, measured just before, over this time.
    gains: Vec<f64>,
}

/// Measures and prints the tables.
pub(super) fn run(runs: Option<usize>, json: Option<&Path>, plot: Option<&Path>) -> Result<()> {
    packages::ensure_lab();
    let bench = Bench::prepare()?;
    let mut hosts = Hosts {
        lab: Lab::start(HOSTS - 1, &bench.belljar)?,
        bench,
    };
    let costs = costs()?;
    let points = hosts.measure(runs.unwrap_or(RUNS).max(1))?;
    drop(hosts);
    let measured = measured(&points);
    let model = Model {
        fit: Fit::of(measured.iter().map(|(_, of)| of))?,
        costs: MeasuredCosts::parse(&costs)?,
        speed: SPEED,
    };
    report::print_measured(&points, &measured, &model);
    report::print_model(&measured, &model);
    if let Some(path) = json {
        write(path, &report::json(&points, &model))?;
    }
    if let Some(path) = plot {
        write(path, &plot::lines(&report::lines(&measured)))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The separately measured costs.
fn costs() -> Result<String> {
    let output = Command::new(cargo())
        .args(["bench", "--quiet", "--package", "belljar-cluster"])
        .args(["--bench", "costs"])
        .current_dir(crate::root())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("the bench of costs failed");
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{text}");
    Ok(text)
}

struct Hosts {
    lab: Lab,
    bench: Bench,
}

impl Hosts {
    /// Measures all configurations, in turns.
    fn measure(&mut self, runs: usize) -> Result<Vec<Point>> {
        // This run copies the snapshot and the program to all hosts.
        self.lab.lay(None)?;
        self.span(LOOKAHEADS[1], HOSTS)?;
        let mut points = Vec::new();
        for _ in 0..runs {
            for late in LATE {
                let round_trip = self.lab.lay(late)?;
                for lookahead in LOOKAHEADS {
                    let alone = self.span(lookahead, 1)?;
                    for hosts in 1..=HOSTS {
                        let span = match hosts {
                            1 => alone,
                            _ => self.span(lookahead, hosts)?,
                        };
                        let point = find(&mut points, lookahead, hosts, late);
                        point.round_trips.push(round_trip);
                        point.spans.push(span);
                        point.gains.push(alone / span);
                        eprintln!(
                            "{hosts} hosts, {lookahead} us apart, {round_trip:.0} us there and back: {span:.1} us"
                        );
                    }
                }
            }
        }
        Ok(points)
    }

    /// Host time of a span, in microseconds, from a run that is then interrupted.
    fn span(&mut self, lookahead: f64, hosts: u32) -> Result<f64> {
        let scenario = self.scenario(lookahead)?;
        let out = self.bench.fresh_out();
        let on = match hosts {
            1 => "--launch alone".to_owned(),
            _ => {
                let others = (1..hosts).map(|host| format!(",h{}", host - 1));
                format!("--launch ssh --hosts head{}", others.collect::<String>())
            }
        };
        self.lab.start_run(&format!(
            "{} --quiet --threads 1 {on} --out {}",
            scenario.display(),
            out.display()
        ))?;
        let slowness = Watch::when(&out.with_extension("incomplete"), BUSY)
            .and_then(|mut watch| watch.slowness());
        self.lab.stop_run()?;
        Ok(slowness? * lookahead)
    }

    fn scenario(&self, lookahead: f64) -> Result<PathBuf> {
        let recipe = crate::root().join("images/bookworm-mpich.toml");
        // Two links and a switch are between nodes.
        let (link, switch) = (lookahead * 400.0, lookahead * 200.0);
        let command = format!(
            "i=1; while [ $i -lt {NODES} ]; do belljar-rsh node$i intloop {STEPS} & i=$((i+1)); done; \
             sleep 0.1; echo {BUSY}; intloop {STEPS}"
        );
        let text = format!(
            "name = \"hosts\"\nimage = {{ recipe = {recipe:?} }}\n\
             nodes = {{ count = {NODES}, memory = \"128 MiB\", clock = \"{CLOCK} MHz\" }}\n\
             network = {{ topology = \"star\", bandwidth = \"100 Gb/s\", latency = \"{link} ns\", \
             switch-latency = \"{switch} ns\" }}\n\
             workload = {{ command = {command:?}, limit = \"1000 s\" }}\n\
             trace = {{ enabled = false, library = false }}\n"
        );
        let path = self.bench.folder.join("hosts.toml");
        fs::write(&path, text)?;
        Ok(path)
    }
}

fn find(points: &mut Vec<Point>, lookahead: f64, hosts: u32, asked: Option<f64>) -> &mut Point {
    let is_it =
        |point: &Point| (point.lookahead, point.hosts, point.asked) == (lookahead, hosts, asked);
    let place = points.iter().position(is_it).unwrap_or_else(|| {
        points.push(Point {
            lookahead,
            hosts,
            asked,
            round_trips: Vec::new(),
            spans: Vec::new(),
            gains: Vec::new(),
        });
        points.len() - 1
    });
    &mut points[place]
}

impl Point {
    fn round_trip(&self) -> f64 {
        median(&mut self.round_trips.clone())
    }

    fn span(&self) -> f64 {
        median(&mut self.spans.clone())
    }

    fn gain(&self) -> f64 {
        median(&mut self.gains.clone())
    }
}

/// Host time for a span by one host, over all repetitions.
fn alone(points: &[Point], lookahead: f64) -> f64 {
    let of = points
        .iter()
        .filter(|point| point.hosts == 1 && point.lookahead == lookahead);
    let mut spans: Vec<f64> = of.flat_map(|point| point.spans.clone()).collect();
    median(&mut spans)
}

/// Million instructions of a thread per second, with the fewest rounds.
fn speed(points: &[Point]) -> f64 {
    let lookahead = LOOKAHEADS[LOOKAHEADS.len() - 1];
    f64::from(NODES) * lookahead * CLOCK / alone(points, lookahead)
}

/// The data for the fit, with its points.
fn measured(points: &[Point]) -> Vec<(&Point, Measured)> {
    let several = points.iter().filter(|point| point.hosts > 1);
    several
        .map(|point| {
            let share = f64::from(NODES.div_ceil(point.hosts)) / f64::from(NODES);
            let of = Measured {
                hosts: point.hosts,
                round_trip: point.round_trip(),
                span: point.span(),
                work: alone(points, point.lookahead) * share,
            };
            (point, of)
        })
        .collect()
}
