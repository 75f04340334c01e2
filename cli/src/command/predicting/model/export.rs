//! `belljar model export`: a model for other tools.
//!
//! Called by `model`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use belljar_ember::ember;
use belljar_files::{OutputFolder, write_file};
use belljar_model::{EXTRA_P_POINTS, Model, extra_p};
use clap::{Args, ValueEnum};

use super::generate::read;
use crate::command::output::say;

/// Target tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// Structural Simulation Toolkit (SST).
    ///
    /// Writes a motif of its element Ember and its parameter files.
    Ember,
    /// Extra-P: the runs' measurements as JSON lines.
    ExtraP,
}

#[derive(Args)]
pub(crate) struct ExportArguments {
    /// Target tool.
    #[arg(value_enum)]
    tool: Tool,
    /// Model file, as `belljar model fit` writes it.
    model: PathBuf,
    /// Motif name in letters and digits.
    ///
    /// The default is the model's name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// New folder for a motif, or new file for Extra-P.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
}

/// `belljar model export`.
pub(super) fn export(arguments: &ExportArguments) -> Result<ExitCode> {
    let model = read(&arguments.model)?;
    match arguments.tool {
        Tool::Ember => motif(arguments, &model),
        Tool::ExtraP => measurements(arguments, &model),
    }
}

/// Measurements for Extra-P.
fn measurements(arguments: &ExportArguments, model: &Model) -> Result<ExitCode> {
    if arguments.name.is_some() {
        bail!("--name is of motifs: leave it out with extra-p");
    }
    let out = &arguments.out;
    if out.symlink_metadata().is_ok() {
        bail!(
            "{} is there already; name another file with --out",
            out.display()
        );
    }
    let measurements = extra_p(model);
    write_file(out, &measurements.text)?;
    if measurements.left_out > 0 {
        warning!(
            "functions without a value in each run, which Extra-P refuses, are left out: {}",
            measurements.left_out
        );
    }
    for (all, name) in [
        (model.ranks().len(), "ranks"),
        (model.sizes().len(), "size"),
    ] {
        if (2..EXTRA_P_POINTS).contains(&all) {
            warning!(
                "the model is of {all} values of {name}; Extra-P asks for {EXTRA_P_POINTS} of each parameter"
            );
        }
    }
    say(format!("{}: measurements for extrap --json", out.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// A motif of Ember.
fn motif(arguments: &ExportArguments, model: &Model) -> Result<ExitCode> {
    let name = arguments.name.as_ref().unwrap_or(&model.name);
    let motif = ember(model, name)?;
    let folder = &arguments.out;
    let unfinished = OutputFolder::create(folder)?;
    let name = &motif.name;
    for (file, text) in [
        (format!("ember{name}.h"), &motif.header),
        (format!("ember{name}.cc"), &motif.source),
        ("msg.model".to_owned(), &motif.bytes),
        ("exec.model".to_owned(), &motif.times),
    ] {
        write_file(&unfinished.path().join(file), text)?;
    }
    unfinished.finish()?;
    motif.warnings.iter().for_each(|it| warning!("{it}"));
    say(format!(
        "{0}/ember{name}.cc, .h: motif ember.{name}Motif; {0}/msg.model, exec.model: its parameters",
        folder.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
