//! Measures the messages that a replay plays a second.
//!
//! `cargo run --release -p belljar-replay --example speed -- WIDTH HEIGHT STEPS [packet|flow|loggops] [fat-tree|star] [DIR]` generates and plays a stencil. Its ranks
//! form a grid, exchange halos of 8 KiB with their neighbours and compute in between. No trace is needed. With a folder, which must not exist, it also writes the same
//! program there for SimGrid's `smpirun -replay`, on the same network. Run by `cargo xtask bench replay`.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

/// The networks and costs of measurements.
mod setting;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use belljar_fabric::Topology;
use belljar_formats::Messages;
use belljar_formats::ti::{Amounts, Layout, write_hosts, write_platform, write_rank};
use belljar_program::{Builder, Program};
use belljar_replay::{calibrate, replay};
use belljar_sim::Frequency;
use setting::{setting, topology};

/// Ranks in a grid that exchange halos.
fn stencil(width: u32, height: u32, steps: u32) -> Program {
    let mut builder = Builder::new(width * height);
    for _ in 0..steps {
        for rank in 0..width * height {
            let (column, row) = (rank % width, rank / width);
            let near = [
                (column > 0).then(|| rank - 1),
                (column + 1 < width).then(|| rank + 1),
                (row > 0).then(|| rank - width),
                (row + 1 < height).then(|| rank + width),
            ];
            builder.work(rank, 50_000_000 + u64::from(rank * 7919 % 1000) * 10_000);
            let mut slots = Vec::new();
            for other in near.into_iter().flatten() {
                slots.push(builder.receive(rank, other, 0));
                slots.push(builder.send(rank, other, 0, 8192));
            }
            for slot in slots {
                builder.wait(rank, slot);
            }
            builder.call(rank, "MPI_Waitall", 100_000_000);
        }
    }
    builder.finish()
}

/// Writes the program for SimGrid.
fn export(program: &Program, topology: &Topology, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    let file = |name: &str| File::create_new(to.join(name)).map(BufWriter::new);
    let messages = Messages::new(program, true);
    let flops_per_second = 2.6e9;
    let mut list = file("ranks")?;
    for rank in 0..messages.ranks() {
        let name = format!("rank-{rank}.txt");
        let mut out = file(&name)?;
        write_rank(&messages, rank, Amounts { flops_per_second }, &mut out)?;
        out.flush()?;
        writeln!(list, "{name}")?;
    }
    list.flush()?;
    let hosts: Vec<u32> = (0..topology.hosts()).collect();
    let layout = Layout {
        topology,
        flops_per_second,
        hosts: &hosts,
    };
    let mut platform = file("platform.xml")?;
    write_platform(&layout, &mut platform)?;
    platform.flush()?;
    let mut places = file("hosts")?;
    write_hosts(&layout, &mut places)?;
    places.flush()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u32| {
        let word = words.get(at).and_then(|word| word.parse().ok());
        word.unwrap_or(default)
    };
    let (width, height, steps) = (number(0, 32), number(1, 32), number(2, 100));
    let model = words.get(3).map_or("loggops", String::as_str);
    let program = stencil(width, height, steps);
    let topology = topology(
        words.get(4).map_or("fat-tree", String::as_str),
        width * height,
    );
    if let Some(to) = words.get(5) {
        export(&program, &topology, Path::new(to)).expect("a new folder that can be written");
    }
    let clock = Frequency::from_hz(2_600_000_000).expect("a frequency");
    let setting = setting(model, topology, clock);
    let calibration = calibrate(&program, &setting).expect("a setting that fits");
    let began = Instant::now();
    let outcome = replay(&program, &calibration, &setting, || true).expect("a setting that fits");
    let took = began.elapsed().as_secs_f64();
    println!(
        "{model}: {} ranks, {} messages in {took:.4} s: {:.3} million messages a second; {} ps",
        width * height,
        outcome.messages,
        outcome.messages as f64 / took / 1e6,
        outcome.total_ps
    );
}
