//! `belljar doctor` and `belljar schema`.
//!
//! Both only print: nothing is installed or written. Called by `main`.

use std::process::ExitCode;

use anyhow::Result;
use belljar_cli::doctor as examination;
use belljar_cli::schema;
use clap::{Args, ValueEnum};

use crate::command::output::{print, say};

#[derive(Args)]
pub(crate) struct SchemaArguments {
    /// The files that it describes.
    #[arg(value_enum, default_value_t)]
    pub(crate) of: SchemaOf,
}

/// Files that have a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// Scenarios, for `belljar run`.
    #[default]
    Scenario,
    /// Mixes, for `belljar simulate`.
    Mix,
}

/// `belljar doctor`.
pub(crate) fn doctor(json: bool) -> Result<ExitCode> {
    let findings = examination::examine();
    match json {
        true => say(serde_json::to_string_pretty(&findings)?)?,
        false => print(examination::render(&findings))?,
    }
    let usable = findings
        .iter()
        .any(|finding| finding.good && finding.subject.starts_with("engine"));
    Ok(if usable {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `belljar schema`.
pub(crate) fn schema(arguments: &SchemaArguments) -> Result<ExitCode> {
    let schema = match arguments.of {
        SchemaOf::Scenario => schema::schema(),
        SchemaOf::Mix => schema::mix_schema(),
    };
    say(serde_json::to_string_pretty(&schema)?)?;
    Ok(ExitCode::SUCCESS)
}
