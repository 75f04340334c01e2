//! `belljar model show`: what a model says of a size.
//!
//! Called by `model`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use belljar_analysis::Table;
use belljar_model::rounded;
use belljar_sim::figures::{decimal, share};
use clap::Args;
use serde_json::json;

use super::generate::read;
use crate::command::output::{say, show as results};

#[derive(Args)]
pub(crate) struct ShowArguments {
    /// A model, as `belljar model fit` writes it.
    model: PathBuf,
    /// Of a run of so many nodes.
    #[arg(long, value_name = "N")]
    nodes: u32,
    /// Of this size of its problem, in the unit that the model's runs were given in.
    #[arg(long, value_name = "SIZE", default_value_t = 1.0)]
    size: f64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// `belljar model show`.
pub(super) fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    let model = read(&arguments.model)?;
    let ranks = f64::from(arguments.nodes.saturating_mul(model.per_node.max(1)));
    let size = arguments.size;
    let mut rows = Vec::new();
    for (class, function, what, values) in model.functions() {
        for of in values.functions() {
            let (least, most) = of.band(ranks, size);
            rows.push(rounded(json!({
                "class": class, "function": function, "value_of": what, "form": of.to_string(),
                "error": of.error, "value": of.at(ranks, size), "from": least, "to": most,
                "beyond": of.beyond(ranks, size),
            })));
        }
    }
    if arguments.json {
        say(serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let heads = [
        "class",
        "function",
        "of",
        "value",
        "band from",
        "to",
        "error",
        "form",
    ];
    let mut table = Table::new(heads);
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap_or(0.0);
        let word = |key: &str| row[key].as_str().unwrap_or("").to_owned();
        table.row(vec![
            number("class").to_string(),
            word("function"),
            word("value_of"),
            decimal(number("value"), 1),
            decimal(number("from"), 1),
            decimal(number("to"), 1),
            share(number("error"), 1),
            word("form"),
        ]);
    }
    results(|out| {
        writeln!(
            out,
            "{ranks} ranks, size {size}; bytes, turns, and times in picoseconds; band: where 19 of 20 measured values would be\n"
        )?;
        table.write(out)
    })?;
    Ok(ExitCode::SUCCESS)
}
