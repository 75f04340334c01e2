//! `belljar trace convert`: a trace in the current format.
//!
//! All versions of the format are read. Called by `trace`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::collected::warn;
use super::{remark, trace_file};

#[derive(Args)]
pub(crate) struct ConvertArguments {
    /// Run directory or trace file.
    trace: PathBuf,
    /// New file.
    out: PathBuf,
}

/// `belljar trace convert`.
pub(super) fn convert(arguments: &ConvertArguments) -> Result<ExitCode> {
    let from = trace_file(&arguments.trace);
    warn(&from)?;
    remark(&belljar_archive::convert(&from, &arguments.out)?);
    Ok(ExitCode::SUCCESS)
}
