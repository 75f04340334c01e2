//! `belljar calibrate`: parameters of models, measured on this machine.
//!
//! A file is written only if the model that it results in agrees with loops that it was not fitted to. Called by
//! `main`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_analysis::Table;
use belljar_calibrate::fit::Fitted;
use belljar_calibrate::measure::measure;
use belljar_calibrate::self_test::{self, MOST_MEDIAN, Tested};
use belljar_files::write_file;
use belljar_sim::figures::decimal;
use clap::{Args, Subcommand};
use serde_json::json;

use crate::command::output::{say, show};

#[derive(Subcommand)]
pub(crate) enum CalibrateCommand {
    /// Measure this processor and write its processor file.
    ///
    /// It takes some 15 seconds. Other work on the machine makes caches and memory look slower. `belljar mpirun --processor` and
    /// scenarios take the file.
    #[command(after_help = "Example: belljar calibrate processor --out here.toml")]
    Processor(ProcessorArguments),
}

#[derive(Args)]
pub(crate) struct ProcessorArguments {
    /// Write the file here; the name ends in .toml.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The processor whose values a file has for parameters that no loop measures.
const BASE: &str = "zen5";

/// `belljar calibrate`.
pub(crate) fn calibrate(command: &CalibrateCommand) -> Result<ExitCode> {
    let CalibrateCommand::Processor(arguments) = command;
    let stem = arguments.out.as_ref().map(|out| out.file_stem());
    let name = match stem {
        Some(stem) => {
            let named = stem.filter(|_| has_extension(arguments));
            let stem = named.context("--out: the name of a processor file ends in .toml")?;
            stem.to_string_lossy().into_owned()
        }
        None => "this".to_owned(),
    };
    let base = belljar_pipeline::processor::BUILT_IN
        .iter()
        .find(|(name, _)| *name == BASE);
    let (_, base) = base.context("the base of processor files is missing")?;
    let measured = measure(|part| note!("measuring {part} ..."))?;
    let fitted = Fitted::new(&name, base, &measured)?;
    let processor = fitted.processor()?;
    let tested = self_test::self_test(&processor)?;
    let differences = fitted.differences(&base.parse()?);
    match arguments.json {
        true => print_json(&measured.name, &differences, &tested)?,
        false => print_tables(&fitted, &differences, &tested)?,
    }
    let median = self_test::median(&tested);
    if median > MOST_MEDIAN {
        bail!("{}", refusal(median, &tested));
    }
    if let Some(out) = &arguments.out {
        write_file(out, fitted.text())
            .with_context(|| format!("cannot write {}", out.display()))?;
        note!("wrote {}", out.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn has_extension(arguments: &ProcessorArguments) -> bool {
    let extension = arguments.out.as_ref().and_then(|out| out.extension());
    extension.is_some_and(|extension| extension == "toml")
}

/// The error of a self-test that fails, with the loops that are off.
fn refusal(median: f64, tested: &[Tested]) -> String {
    let off = tested.iter().filter(|one| one.factor() > MOST_MEDIAN);
    let off: Vec<String> = off
        .map(|one| format!("{} ({})", one.name, decimal(one.ratio(), 2)))
        .collect();
    format!(
        "the self-test is off by a factor of {} in the median (limit {MOST_MEDIAN}), so no file is written; \
         loops beyond the limit: {}; repeat it without other work on this machine",
        decimal(median, 2),
        off.join(", ")
    )
}

fn print_tables(
    fitted: &Fitted,
    differences: &BTreeMap<String, (i64, Option<i64>)>,
    tested: &[Tested],
) -> Result<()> {
    for note in fitted.notes() {
        say(note)?;
    }
    let mut parameters = Table::new(["measured parameter", "here", BASE]);
    for (key, (own, other)) in differences {
        let other = other.map_or_else(|| "-".to_owned(), |other| other.to_string());
        parameters.row(vec![key.clone(), own.to_string(), other]);
    }
    let mut loops = Table::new(["self-test, cycles of a round", "measured", "model", "ratio"]);
    for one in tested {
        let cells = [one.measured, one.modelled, one.ratio()].map(|value| decimal(value, 2));
        loops.row([one.name.clone()].into_iter().chain(cells).collect());
    }
    show(|out| {
        parameters.write(out)?;
        writeln!(out)?;
        loops.write(out)?;
        let median = decimal(self_test::median(tested), 2);
        writeln!(
            out,
            "\nThe median factor is {median}; the limit is {MOST_MEDIAN}."
        )
    })
}

fn print_json(
    name: &str,
    differences: &BTreeMap<String, (i64, Option<i64>)>,
    tested: &[Tested],
) -> Result<()> {
    let parameters: BTreeMap<_, _> = differences
        .iter()
        .map(|(key, (own, other))| (key, json!({ "measured": own, BASE: other })))
        .collect();
    let loops: Vec<_> = tested
        .iter()
        .map(|one| {
            json!({ "name": one.name, "measured_cycles": one.measured, "modelled_cycles": one.modelled })
        })
        .collect();
    let result = json!({
        "processor": name,
        "differences": parameters,
        "self_test": loops,
        "median_factor": self_test::median(tested),
    });
    say(serde_json::to_string_pretty(&result)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_loops_that_are_off() {
        let of = |name: &str, modelled| Tested {
            name: name.to_owned(),
            measured: 10.0,
            modelled,
        };
        let tested = [of("good", 10.5), of("fast", 5.0), of("slow", 14.0)];
        let text = refusal(self_test::median(&tested), &tested);
        assert!(text.contains("1.40 in the median"), "{text}");
        assert!(text.contains("fast (0.50), slow (1.40)"), "{text}");
        assert!(!text.contains("good"), "{text}");
    }
}
