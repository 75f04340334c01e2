//! `cargo xtask bench replay`: how many messages replay plays a second, against SimGrid's `smpirun -replay`.
//!
//! A stencil is made up for so many ranks at one switch, is played by each model, and by SimGrid from the same program as a time-independent trace. Only the ratio to
//! SimGrid means anything from host to host. Both have the program before them: what reading files takes is SimGrid's alone, as it reads while it plays.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::median;
use crate::packages::{self, BUILD, TEST};
use crate::shell;

/// Width and height of the grid, and steps.
const SIZES: [[u32; 3]; 2] = [[8, 8, 1000], [32, 32, 100]];

const MODELS: [&str; 3] = ["loggops", "flow", "packet"];

/// One model's figures.
struct Played {
    messages: f64,
    seconds: f64,
}

/// Measures and prints a table.
pub(super) fn run(runs: usize) -> Result<()> {
    packages::ensure(&[BUILD, TEST])?;
    let cargo = shell::cargo();
    let example = ["--package", "belljar-replay", "--example", "speed"];
    shell::run(&cargo, &[&["build", "--release"], &example[..]].concat())?;
    let speed = shell::target().join("release/examples/speed");
    println!(
        "| ranks | model | messages | seconds | million messages a second | SimGrid, seconds | times faster |"
    );
    println!("|---|---|---|---|---|---|---|");
    for size in SIZES {
        let exported = shell::target().join(format!("replay-{}", size[0] * size[1]));
        if exported.exists() {
            fs::remove_dir_all(&exported)?;
        }
        play(&speed, size, "loggops", Some(&exported))?;
        let peer = simgrid(size[0] * size[1], &exported)?;
        for model in MODELS {
            let (mut messages, mut all) = (0.0, Vec::new());
            for _ in 0..runs {
                let played = play(&speed, size, model, None)?;
                messages = played.messages;
                all.push(played.seconds);
            }
            let seconds = median(&mut all);
            println!(
                "| {} | {model} | {messages} | {seconds:.3} | {:.2} | {peer:.1} | {:.0} |",
                size[0] * size[1],
                messages / seconds / 1e6,
                peer / seconds
            );
        }
    }
    Ok(())
}

/// Plays the stencil, and has it written for SimGrid where asked.
fn play(speed: &Path, size: [u32; 3], model: &str, to: Option<&Path>) -> Result<Played> {
    let mut command = Command::new(speed);
    command.args(size.map(|number| number.to_string()));
    command.args([model, "star"]).args(to);
    let output = command.output().context("the example cannot be run")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!(
            "the example failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let words: Vec<&str> = said.split_whitespace().collect();
    let before = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    let (messages, seconds) = (before("messages"), before("s:"));
    let played = messages.zip(seconds);
    let (messages, seconds) = played.with_context(|| format!("the example said: {said}"))?;
    Ok(Played { messages, seconds })
}

/// Seconds that SimGrid takes.
fn simgrid(ranks: u32, folder: &Path) -> Result<f64> {
    let ranks = ranks.to_string();
    let began = Instant::now();
    let status = Command::new("smpirun")
        .args([
            "-np",
            &ranks,
            "-platform",
            "platform.xml",
            "-hostfile",
            "hosts",
        ])
        .args(["-replay", "ranks", "--log=root.thres:warning"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .status()
        .context("smpirun cannot be run; Debian's libsimgrid-dev has it")?;
    if !status.success() {
        bail!("smpirun failed ({status})");
    }
    Ok(began.elapsed().as_secs_f64())
}
