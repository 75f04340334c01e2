//! `cargo xtask bench replay`: messages that replay plays per second, compared with SimGrid's `smpirun -replay`.
//!
//! A synthetic stencil of ranks at one switch is played by each model, and by SimGrid from the same program as a time-independent
//! trace. Only the ratio to SimGrid can be compared between hosts. Both have the program already; only SimGrid's time includes
//! reading files, as it reads them while it plays.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::median;
use crate::packages::{self, BUILD, TEST};
use crate::shell;

/// Width and height of the grid, and steps.
const SIZES: [[u32; 3]; 3] = [[8, 8, 1000], [16, 16, 300], [32, 32, 100]];

const MODELS: [&str; 3] = ["loggops", "flow", "packet"];

/// One model's figures.
struct Played {
    messages: f64,
    seconds: f64,
}

/// Measures and prints two tables: of playing alone, and of all stages from a trace's file on.
pub(super) fn run(runs: usize) -> Result<()> {
    packages::ensure(&[BUILD, TEST])?;
    let cargo = shell::cargo();
    let examples = [
        "--package",
        "belljar-replay",
        "--example",
        "speed",
        "--example",
        "stages",
    ];
    shell::run(&cargo, &[&["build", "--release"], &examples[..]].concat())?;
    let examples = shell::target().join("release/examples");
    playing(&examples.join("speed"), runs)?;
    println!();
    stages(&examples.join("stages"), runs)
}

/// The table of playing. The rate of each model is compared with its own at the fewest ranks: 1 means that the cost of a message
/// does not grow with the ranks.
fn playing(speed: &Path, runs: usize) -> Result<()> {
    println!(
        "| ranks | model | messages | seconds | million messages a second | of the rate at {} ranks | SimGrid, seconds | times faster |",
        SIZES[0][0] * SIZES[0][1]
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut first = [0.0; MODELS.len()];
    for size in SIZES {
        let exported = shell::target().join(format!("replay-{}", size[0] * size[1]));
        if exported.exists() {
            fs::remove_dir_all(&exported)?;
        }
        play(speed, size, "loggops", Some(&exported))?;
        let peer = simgrid(size[0] * size[1], &exported)?;
        for (model, first) in MODELS.into_iter().zip(&mut first) {
            let (mut messages, mut all) = (0.0, Vec::new());
            for _ in 0..runs {
                let played = play(speed, size, model, None)?;
                messages = played.messages;
                all.push(played.seconds);
            }
            let seconds = median(&mut all);
            let rate = messages / seconds / 1e6;
            if *first == 0.0 {
                *first = rate;
            }
            println!(
                "| {} | {model} | {messages} | {seconds:.3} | {rate:.2} | {:.2} | {peer:.1} | {:.0} |",
                size[0] * size[1],
                rate / *first,
                peer / seconds
            );
        }
    }
    Ok(())
}

/// The table of stages: reading the trace, calibration, playing.
fn stages(stages: &Path, runs: usize) -> Result<()> {
    println!(
        "| ranks | model | messages | read, seconds | calibrated | played | million messages a second |"
    );
    println!("|---|---|---|---|---|---|---|");
    for size in SIZES {
        for model in MODELS {
            let (mut messages, mut seconds) = (0.0, [(); 3].map(|()| Vec::new()));
            for _ in 0..runs {
                let said = output(Command::new(stages).args(arguments(size)).arg(model))?;
                let words: Vec<&str> = said.split([' ', ',']).collect();
                let after = |name: &str| -> Result<f64> {
                    let at = words.iter().position(|word| *word == name);
                    let word = at.and_then(|at| words.get(at + 1)?.parse().ok());
                    word.with_context(|| format!("the example said: {said}"))
                };
                messages = before(&said, "messages")?;
                for (all, name) in seconds.iter_mut().zip(["read", "calibrated", "played"]) {
                    all.push(after(name)?);
                }
            }
            let [read, calibrated, played] = seconds.map(|mut all| median(&mut all));
            println!(
                "| {} | {model} | {messages} | {read:.3} | {calibrated:.3} | {played:.3} | {:.2} |",
                size[0] * size[1],
                messages / (read + calibrated + played) / 1e6
            );
        }
    }
    Ok(())
}

/// Width, height and steps, as arguments of examples.
fn arguments(size: [u32; 3]) -> [String; 3] {
    size.map(|number| number.to_string())
}

/// The standard output of an example.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().context("the example cannot be run")?;
    if !output.status.success() {
        bail!(
            "the example failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Plays the stencil, and writes it for SimGrid if a path is given.
fn play(speed: &Path, size: [u32; 3], model: &str, to: Option<&Path>) -> Result<Played> {
    let mut command = Command::new(speed);
    command.args(arguments(size)).args([model, "star"]).args(to);
    let said = output(&mut command)?;
    Ok(Played {
        messages: before(&said, "messages")?,
        seconds: before(&said, "s:")?,
    })
}

/// The number before a word that an example prints.
fn before(said: &str, name: &str) -> Result<f64> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let at = words.iter().position(|word| *word == name);
    let word = at.and_then(|at| words.get(at.checked_sub(1)?));
    let number = word.and_then(|word| word.parse().ok());
    number.with_context(|| format!("the example said: {said}"))
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
