//! `belljar model show`: a model's predictions for a size.
//!
//! Called by `model`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use belljar_analysis::Table;
use belljar_model::fit::Band;
use belljar_model::{Model, rounded};
use belljar_sim::figures::{decimal, share};
use clap::Args;
use serde_json::{Value, json};

use super::generate::read;
use crate::command::output::{say, show as results};

#[derive(Args)]
pub(crate) struct ShowArguments {
    /// Model file, as `belljar model fit` writes it.
    model: PathBuf,
    /// Number of nodes of the run.
    #[arg(long, value_name = "N")]
    nodes: u32,
    /// Problem size, in the unit of the model's runs.
    #[arg(long, value_name = "SIZE", default_value_t = 1.0)]
    size: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `belljar model show`.
pub(super) fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    let model = read(&arguments.model)?;
    let ranks = f64::from(arguments.nodes.saturating_mul(model.per_node.max(1)));
    let size = arguments.size;
    if !(size.is_finite() && size > 0.0) || ranks == 0.0 {
        bail!(
            "--nodes = {} and --size = {size} must be above 0",
            arguments.nodes
        );
    }
    let rows: Vec<FunctionRow> = rows(&model, ranks, size);
    let warnings = model.doubts(ranks, size);
    if arguments.json {
        let functions: Vec<Value> = rows.iter().map(|row| rounded(row.json())).collect();
        let all = json!({
            "ranks": ranks, "size": size, "fitted_to": model.runs, "beyond": model.beyond(ranks, size),
            "warnings": warnings, "functions": functions,
        });
        say(serde_json::to_string_pretty(&all)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    warnings.iter().for_each(|it| warning!("{it}"));
    results(|out| text(&rows, ranks, size, out))?;
    Ok(ExitCode::SUCCESS)
}

/// Values of a function at a number of ranks and a size.
struct FunctionRow {
    class: usize,
    function: String,
    what: &'static str,
    start_up: bool,
    form: String,
    points: usize,
    value: f64,
    band: Option<Band>,
    error: Option<f64>,
    beyond: f64,
}

impl FunctionRow {
    fn json(&self) -> Value {
        json!({
            "class": self.class, "function": self.function, "value_of": self.what,
            "part": if self.start_up { "start-up" } else { "main" },
            "form": self.form, "points": self.points, "error": self.error, "value": self.value,
            "from": self.band.map(|it| it.from), "to": self.band.map(|it| it.to),
            "cut_at_zero": self.band.is_some_and(|it| it.cut), "beyond": self.beyond,
        })
    }

    fn cells(&self) -> Vec<String> {
        let end = |of: fn(Band) -> f64| {
            let end = self.band.map(of);
            end.map_or("unknown".to_owned(), |it| decimal(it, 1))
        };
        vec![
            self.class.to_string(),
            self.function.clone(),
            self.what.to_owned(),
            decimal(self.value, 1),
            end(|it| it.from),
            end(|it| it.to),
            self.error.map_or("unknown".to_owned(), |it| share(it, 1)),
            self.form.clone(),
        ]
    }
}

fn rows(model: &Model, ranks: f64, size: f64) -> Vec<FunctionRow> {
    let mut rows = Vec::new();
    for function in model.functions() {
        for (part, of) in function.values.functions().iter().enumerate() {
            let mut divisions = function.values.divisions();
            let division = divisions.find(|(number, _)| *number == part);
            // A division gives each value exactly: its band is the value.
            let value = function.values.first(part, ranks, size);
            let band = Band {
                from: value,
                to: value,
                cut: false,
            };
            rows.push(FunctionRow {
                class: function.class,
                function: function.function.clone(),
                what: function.what,
                start_up: function.start_up,
                form: division.map_or_else(|| of.to_string(), |(_, it)| it.to_string()),
                points: of.points(),
                value,
                band: division.map_or_else(|| of.band(ranks, size), |_| Some(band)),
                error: division.map_or(of.error, |_| None),
                beyond: of.beyond(ranks, size),
            });
        }
    }
    rows
}

fn text(rows: &[FunctionRow], ranks: f64, size: f64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{ranks} ranks, size {size}; bytes, turns, and times in picoseconds; band: where 19 of 20 measured values would be"
    )?;
    for (start_up, head) in [(true, "Start-up"), (false, "Main part")] {
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
        let own: Vec<&FunctionRow> = rows.iter().filter(|row| row.start_up == start_up).collect();
        if own.is_empty() {
            continue;
        }
        own.iter().for_each(|row| {
            table.row(row.cells());
        });
        writeln!(out, "\n{head}")?;
        table.write(out)?;
    }
    let cut = rows
        .iter()
        .filter(|row| row.band.is_some_and(|it| it.cut))
        .count();
    if cut > 0 {
        writeln!(out, "\nbands cut at zero: {cut} of {}", rows.len())?;
    }
    Ok(())
}
