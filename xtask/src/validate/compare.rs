//! Errors of a replay: its figures compared with those of the predicted run.
//!
//! Errors are shares of the real time. Called by `validate`; its other modules use it to run commands,
//! too.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Errors of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Errors {
    /// The run's time from the first call to the last return, in picoseconds.
    pub(super) real_ps: f64,
    /// Error of the total, with its sign.
    pub(super) total: f64,
    /// The run's main part, between start and end of MPI, in picoseconds.
    pub(super) real_main_ps: f64,
    /// Error of the main part, with its sign.
    pub(super) main: f64,
    /// Error of the worst rank's total.
    pub(super) rank: f64,
    /// Error summed over functions.
    pub(super) functions: f64,
    /// Error summed over calls, if both made the same.
    pub(super) calls: Option<f64>,
}

/// Functions outside of the comparison.
pub(super) const APART: [&str; 3] = ["MPI_Init", "MPI_Init_thread", "MPI_Finalize"];

/// Replays the run in `from` with these keys, and compares the result with the run in `to`.
pub(super) fn errors(belljar: &str, from: &Path, to: &Path, keys: &[&str]) -> Result<Errors> {
    let played = from.with_extension("played");
    let _ = std::fs::remove_dir_all(&played);
    let [from, to, out] = [from, to, &played].map(|path| path.to_string_lossy().into_owned());
    let mut words = vec!["replay", &from, "--json", "--out", &out];
    for key in keys {
        words.extend(["--set", key]);
    }
    let predicted = json(belljar, &words)?;
    let real = json(belljar, &["replay", &to, "--json", "--model", "loggops"])?;
    let total = |of: &Value, key: &str| of[key].as_f64().unwrap_or(0.0);
    let real_ps = total(&real, "traced_ps");
    let real_main_ps = total(&real, "traced_main_ps");
    let (ranks, were) = (
        by(&predicted, "ranks", "rank", "total_ps"),
        by(&real, "ranks", "rank", "traced_ps"),
    );
    let rank = were.iter().map(|(rank, was)| {
        let is = ranks.get(rank).copied().unwrap_or(0.0);
        (is / was - 1.0).abs()
    });
    let is = by(&predicted, "functions", "function", "total_ps");
    let was = by(&real, "functions", "function", "traced_ps");
    let calls = calls(belljar, &out, &to)?;
    std::fs::remove_dir_all(&played)?;
    Ok(Errors {
        real_ps,
        total: total(&predicted, "total_ps") / real_ps - 1.0,
        real_main_ps,
        main: total(&predicted, "main_ps") / real_main_ps - 1.0,
        rank: rank.fold(0.0, f64::max),
        functions: apart(&is, &was),
        calls,
    })
}

/// A figure of each entry of a list, by name.
fn by(of: &Value, list: &str, name: &str, figure: &str) -> BTreeMap<String, f64> {
    let all = of[list].as_array().into_iter().flatten();
    all.map(|one| {
        let name = one[name]
            .as_str()
            .map_or_else(|| one[name].to_string(), str::to_owned);
        (name, one[figure].as_f64().unwrap_or(0.0))
    })
    .filter(|(name, _)| !APART.contains(&name.as_str()))
    .collect()
}

/// The sum of differences over the sum of the real figures.
fn apart(is: &BTreeMap<String, f64>, was: &BTreeMap<String, f64>) -> f64 {
    let mut off: f64 = 0.0;
    for (name, was) in was {
        off += (is.get(name).copied().unwrap_or(0.0) - was).abs();
    }
    let more = is.iter().filter(|(name, _)| !was.contains_key(*name));
    off += more.map(|(_, is)| is).sum::<f64>();
    off / was.values().sum::<f64>().max(1.0)
}

/// The differences of single calls; `None` if the programs made different ones.
fn calls(belljar: &str, played: &str, real: &str) -> Result<Option<f64>> {
    let (played, real) = (durations(belljar, played)?, durations(belljar, real)?);
    let (mut off, mut all) = (0.0, 0.0);
    for (rank, real) in &real {
        let Some(played) = played.get(rank).filter(|played| played.len() == real.len()) else {
            return Ok(None);
        };
        for ((is_name, is), (was_name, was)) in played.iter().zip(real) {
            if is_name != was_name {
                return Ok(None);
            }
            off += (is - was).abs();
            all += was;
        }
    }
    Ok(Some(off / f64::max(all, 1.0)))
}

/// By rank, the functions called and how long each call took.
fn durations(belljar: &str, directory: &str) -> Result<BTreeMap<u64, Vec<(String, f64)>>> {
    let dump = output(belljar, &["trace", "dump", directory, "--json"])?;
    let mut ranks: BTreeMap<u64, Vec<(String, f64)>> = BTreeMap::new();
    for line in dump.lines() {
        let call: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let name = call["function"].as_str().unwrap_or("").to_owned();
        if call["depth"] == 0 && !APART.contains(&name.as_str()) {
            let took = call["duration_ps"].as_f64().unwrap_or(0.0);
            let rank = call["rank"].as_u64().unwrap_or(0);
            ranks.entry(rank).or_default().push((name, took));
        }
    }
    Ok(ranks)
}

pub(super) fn json(belljar: &str, words: &[&str]) -> Result<Value> {
    let text = output(belljar, words)?;
    serde_json::from_str(&text).with_context(|| words.join(" "))
}

/// The output of a command of belljar.
pub(super) fn output(belljar: &str, words: &[&str]) -> Result<String> {
    let run = Command::new(belljar).args(words).output();
    let run = run.with_context(|| format!("cannot start {belljar}"))?;
    if !run.status.success() {
        bail!(
            "belljar {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&run.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}
