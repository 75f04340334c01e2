//! `belljar model export`: a model for other simulators.
//!
//! Called by `model`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use belljar_model::ember;
use clap::{Args, ValueEnum};

use super::generate::read;
use crate::command::output::say;

/// For which simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Simulator {
    /// The Structural Simulation Toolkit: a motif of its element Ember, and its parameter files.
    Ember,
}

#[derive(Args)]
pub(crate) struct ExportArguments {
    /// For which simulator.
    #[arg(value_enum)]
    simulator: Simulator,
    /// A model, as `belljar model fit` writes it.
    model: PathBuf,
    /// What the motif is called: letters and digits. The model's name when absent.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The new folder for its files.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// `belljar model export`.
pub(super) fn export(arguments: &ExportArguments) -> Result<ExitCode> {
    let Simulator::Ember = arguments.simulator;
    let model = read(&arguments.model)?;
    let name = arguments.name.as_ref().unwrap_or(&model.name);
    let motif = ember(&model, name)?;
    let folder = &arguments.out;
    fs::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let name = &motif.name;
    for (file, text) in [
        (format!("ember{name}.h"), &motif.header),
        (format!("ember{name}.cc"), &motif.source),
        ("msg.model".to_owned(), &motif.bytes),
        ("exec.model".to_owned(), &motif.times),
    ] {
        let path = folder.join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    motif
        .warnings
        .iter()
        .for_each(|it| eprintln!("warning: {it}"));
    say(format!(
        "{0}/ember{name}.cc, .h: motif ember.{name}Motif; {0}/msg.model, exec.model: its parameters",
        folder.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
