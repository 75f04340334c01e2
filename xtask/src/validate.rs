//! `cargo xtask validate`: replays compared with runs.
//!
//! Programs run as whole systems on several networks, and each trace is replayed on each other network, independent of the run
//! there. Predicted and real times are compared in total, by rank, by function and call by call, as totals hide errors that
//! cancel each other. The table is `docs/accuracy.md`; it includes every program. Existing runs are not repeated. Called by
//! `main`.

/// Errors of a replay.
mod compare;
/// Networks.
mod networks;
/// The page of results.
mod page;
/// Programs.
mod programs;
/// SimGrid's result for the same trace.
mod simgrid;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::packages::{self, BUILD, TEST};
use crate::shell;
use compare::errors;
use networks::{NETWORKS, Network};
use page::{ValidationRow, page, page_with_cards};
use programs::{ValidatedProgram, programs, with_cards};

/// Programs to validate.
#[derive(clap::Args)]
pub(crate) struct ValidateArguments {
    /// Select programs by a part of their names.
    ///
    /// The table is printed, and the page does not change.
    #[arg(long)]
    only: Option<String>,
    /// Run on nodes with InfiniBand cards, and write `docs/accuracy-infiniband.md`.
    #[arg(long)]
    infiniband: bool,
    /// Command to validate; built when absent.
    #[arg(long, value_name = "FILE")]
    belljar: Option<PathBuf>,
}

/// Runs, replays, and writes the table.
pub(crate) fn run(arguments: &ValidateArguments) -> Result<()> {
    packages::ensure(&[BUILD, TEST])?;
    let binary = match &arguments.belljar {
        Some(binary) => {
            fs::canonicalize(binary).with_context(|| format!("cannot find {}", binary.display()))?
        }
        None => shell::build_belljar(shell::BuildProfile::Release)?,
    };
    let belljar = binary.to_str().context("the command's path is not text")?;
    let images: &[&str] = match arguments.infiniband {
        true => &["infiniband"],
        false => &["mpich", "gromacs"],
    };
    for image in images {
        let recipe = format!("images/bookworm-{image}.toml");
        shell::run(belljar, &["image", "build", "--keep-lock", &recipe])?;
    }
    let folder = crate::root().join("target/validate");
    fs::create_dir_all(&folder)?;
    let [kernels, patterns] = ["kernels", "patterns"].map(|name| folder.join(name));
    for (compiled, name) in [(&kernels, "kernels"), (&patterns, "patterns")] {
        let compiled = compiled.to_string_lossy();
        let source = format!("scenarios/validate/{name}.c");
        shell::run("mpicc.mpich", &["-O1", "-w", "-o", &compiled, &source])?;
    }
    let wanted = |name: &str| {
        arguments
            .only
            .as_ref()
            .is_none_or(|only| name.contains(only))
    };
    let mut rows = Vec::new();
    let all = match arguments.infiniband {
        true => with_cards(&kernels, &patterns),
        false => programs(&kernels, &patterns),
    };
    for program in all {
        if wanted(&program.name) {
            rows.extend(validate(belljar, &folder, &program)?);
        }
    }
    if rows.is_empty() {
        bail!("no program has {:?} in its name", arguments.only);
    }
    let (page, file) = match arguments.infiniband {
        true => (page_with_cards(&rows), "docs/accuracy-infiniband.md"),
        false => (page(&rows), "docs/accuracy.md"),
    };
    print!("{page}");
    if arguments.only.is_none() {
        fs::write(crate::root().join(file), page)?;
    }
    Ok(())
}

/// Runs a program on all networks, and replays it from and to the base.
fn validate(
    belljar: &str,
    folder: &Path,
    program: &ValidatedProgram,
) -> Result<Vec<ValidationRow>> {
    let directory = |network: &Network| -> PathBuf {
        let [program_name, network] =
            [&*program.name, network.name].map(|name| name.replace([' ', '/'], ""));
        folder.join(format!("{program_name}-{}-{network}", program.nodes))
    };
    for network in program.networks {
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
        // Options of mpirun precede the program.
        let place = if words[0] == "mpirun" { 1 } else { words.len() };
        words.splice(place..place, own);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        shell::run(belljar, &words)?;
    }
    let (base, others) = program.networks.split_first().context("no networks")?;
    let others = others.iter();
    let pairs = others.flat_map(|other| [(base, other), (other, base)]);
    let row = |(from, to): (&'static Network, &'static Network)| {
        // The other network's changes are reverted.
        let keys = if to.keys.is_empty() {
            from.back
        } else {
            to.keys
        };
        let errors = errors(belljar, &directory(from), &directory(to), keys)?;
        // SimGrid plays the kernels, on the networks that differ in single keys.
        let played = match program.networks == &NETWORKS[..] {
            true => simgrid::totals(belljar, &directory(from), keys)?,
            false => [None; 2],
        };
        Ok(ValidationRow {
            program: program.name.clone(),
            nodes: program.nodes,
            from: from.name,
            to: to.name,
            of_shapes: program.networks != &NETWORKS[..],
            simgrid: played.map(|total| total.map(|total_ps| total_ps / errors.real_ps - 1.0)),
            errors,
        })
    };
    pairs.map(row).collect()
}
