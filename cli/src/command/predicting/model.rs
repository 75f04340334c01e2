//! `belljar model`: models of programs from traced runs of several sizes, and traces of sizes that never ran.
//!
//! Called by `main`.

/// `belljar model export`.
mod export;
/// `belljar model fit`.
mod fit;
/// `belljar model generate`.
mod generate;
/// `belljar model show`.
mod show;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    /// Fit a program's model to its traced runs.
    ///
    /// The runs differ in their numbers of nodes or in their problem sizes.
    #[command(
        after_help = "Example: belljar model fit cg-4=1400 cg-8=1400 cg-16=1400 --out cg.model"
    )]
    Fit(fit::FitArguments),
    /// Generate a synthetic run from a model.
    ///
    /// All commands accept its trace.
    #[command(
        after_help = "Example: belljar model generate cg.model --nodes 64 --size 1400 --out cg-64"
    )]
    Generate(generate::GenerateArguments),
    /// Print a model's predictions, function by function.
    ///
    /// Each has the band in which measured values would be.
    #[command(after_help = "Example: belljar model show cg.model --nodes 64 --size 1400")]
    Show(show::ShowArguments),
    /// Export a model for SST, or its measurements for Extra-P.
    #[command(after_help = "Example: belljar model export ember cg.model --name Cg --out cg-motif")]
    Export(export::ExportArguments),
}

/// `belljar model`.
pub(crate) fn model(command: &ModelCommand) -> Result<ExitCode> {
    match command {
        ModelCommand::Fit(arguments) => fit::fit(arguments),
        ModelCommand::Generate(arguments) => generate::generate(arguments),
        ModelCommand::Show(arguments) => show::show(arguments),
        ModelCommand::Export(arguments) => export::export(arguments),
    }
}
