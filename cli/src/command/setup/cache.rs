//! `belljar cache`: lists and removes the files of the user's cache.
//!
//! Nothing in use is removed: images and snapshots are locked by the processes that have them open, work folders by the
//! builds that fill them. Called by `main`.
// The host's clock gives the ages; no result depends on them.
#![allow(clippy::disallowed_methods)]

/// The entries of the cache.
mod entries;

use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use belljar_analysis::Table;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::command::output::{say, show};
use entries::{CacheEntry, CacheEntryKind, Removed};

#[derive(Subcommand)]
pub(crate) enum CacheCommand {
    /// List kept files, such as images and snapshots.
    ///
    /// Prints the size, age and last use of each.
    List(ListArguments),
    /// Remove kept files that are not in use.
    ///
    /// They are made again when needed.
    #[command(
        after_help = "Example: belljar cache prune --kind snapshot --older-than 7d --dry-run"
    )]
    Prune(PruneArguments),
}

#[derive(Args)]
pub(crate) struct ListArguments {
    /// List only entries of this kind; repeatable.
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Vec<CacheEntryKind>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct PruneArguments {
    /// Remove entries unused for this time, such as `7d`, `12h`.
    #[arg(long, value_name = "TIME")]
    older_than: Option<Age>,
    /// Remove only entries of this kind; repeatable.
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Vec<CacheEntryKind>,
    /// Remove all entries that are not in use.
    #[arg(long, conflicts_with_all = ["older_than", "kind"])]
    all: bool,
    /// Print the entries to remove, and remove none.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A span of the host's time: a whole number with `m`, `h`, `d` or `w`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Age(Duration);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || {
            format!(
                "`{text}` is not an age: write a whole number with the unit m, h, d or w, such as 7d"
            )
        };
        let split = text.find(|it: char| !it.is_ascii_digit());
        let (number, unit) = text.split_at(split.ok_or_else(refused)?);
        let seconds: u64 = match unit.trim() {
            "m" | "min" => 60,
            "h" => 3600,
            "d" => 86_400,
            "w" => 7 * 86_400,
            _ => return Err(refused()),
        };
        let number: u64 = number.parse().map_err(|_| refused())?;
        let span = number.checked_mul(seconds).ok_or_else(refused)?;
        Ok(Self(Duration::from_secs(span)))
    }
}

/// `belljar cache`.
pub(crate) fn cache(command: &CacheCommand) -> Result<ExitCode> {
    match command {
        CacheCommand::List(arguments) => list(arguments),
        CacheCommand::Prune(arguments) => prune(arguments),
    }
}

/// The time from `then` until now; zero if the host's clock was set back.
fn since(then: SystemTime) -> Duration {
    then.elapsed().unwrap_or_default()
}

fn list(arguments: &ListArguments) -> Result<ExitCode> {
    let entries = wanted(&arguments.kind)?;
    if arguments.json {
        let all: Vec<Value> = entries.iter().map(|entry| as_json(entry, None)).collect();
        say(serde_json::to_string_pretty(&all)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["kind", "name", "size", "age", "last use", "state"]);
    for entry in &entries {
        table.row(vec![
            entry.kind.name().to_owned(),
            entry.name.clone(),
            size(entry.bytes),
            age(since(entry.made)),
            age(since(entry.used)),
            match entry.is_in_use() {
                true => "in use".to_owned(),
                false => String::new(),
            },
        ]);
    }
    let total = entries.iter().map(|entry| entry.bytes).sum();
    show(|out| {
        table.write(out)?;
        writeln!(
            out,
            "{} in {}; remove with: belljar cache prune",
            size(total),
            belljar_sim::figures::counted_as(entries.len() as u64, "entry", "entries")
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn prune(arguments: &PruneArguments) -> Result<ExitCode> {
    if !arguments.all && arguments.kind.is_empty() && arguments.older_than.is_none() {
        bail!("no entries are selected: give --older-than, --kind or --all");
    }
    let entries = wanted(&arguments.kind)?;
    let old = |entry: &&CacheEntry| {
        let least = arguments.older_than;
        least.is_none_or(|least| since(entry.used) > least.0)
    };
    let (mut bytes, mut failed, mut all) = (0, false, Vec::new());
    for entry in entries.iter().filter(old) {
        let removed = match arguments.dry_run {
            true if entry.is_in_use() => Removed::InUse,
            true => Removed::Would,
            false => entry.remove(),
        };
        if matches!(removed, Removed::Yes | Removed::Would) {
            bytes += entry.bytes;
        }
        if let Removed::Failed(error) = &removed {
            failed = true;
            warning!("cannot remove {}: {error}", entry.path.display());
        }
        match arguments.json {
            true => all.push(as_json(entry, Some(&removed))),
            false => say(format_args!(
                "{:<14} {:<10} {} ({})",
                removed.words(),
                entry.kind.name(),
                entry.name,
                size(entry.bytes)
            ))?,
        }
    }
    match arguments.json {
        true => say(serde_json::to_string_pretty(&all)?)?,
        false if arguments.dry_run => say(format_args!("{} would be removed", size(bytes)))?,
        false => say(format_args!("{} removed", size(bytes)))?,
    }
    Ok(match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// The entries of these kinds, or all.
fn wanted(kinds: &[CacheEntryKind]) -> Result<Vec<CacheEntry>> {
    let mut entries = entries::all()?;
    entries.retain(|entry| kinds.is_empty() || kinds.contains(&entry.kind));
    Ok(entries)
}

fn as_json(entry: &CacheEntry, removed: Option<&Removed>) -> Value {
    let mut value = json!({
        "kind": entry.kind.name(),
        "name": entry.name,
        "path": entry.path.display().to_string(),
        "bytes": entry.bytes,
        "age_s": since(entry.made).as_secs(),
        "last_use_s": since(entry.used).as_secs(),
        "in_use": entry.is_in_use(),
    });
    if let Some(removed) = removed {
        value["outcome"] = removed.words().into();
    }
    value
}

/// Bytes as text.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| {
            let value = bytes as f64 / *unit as f64;
            format!("{} {name}", belljar_sim::figures::decimal(value, 1))
        },
    )
}

/// A span of the host's time as text.
pub(in crate::command) fn age(span: Duration) -> String {
    match span.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ ..3600 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_whole_numbers_with_units() {
        let seconds = |text: &str| text.parse::<Age>().map(|age| age.0.as_secs());
        assert_eq!(seconds("7d"), Ok(7 * 86_400));
        assert_eq!(seconds("90 min"), Ok(5400));
        for wrong in ["", "7", "d", "-1d", "1.5h", "7y", "99999999999999999999d"] {
            let refused = seconds(wrong).unwrap_err();
            assert!(refused.contains("7d"), "{refused}");
        }
    }

    #[test]
    fn sizes_and_ages_are_for_people() {
        assert_eq!([size(5), size(3 << 30)], ["5 B", "3.0 GiB"]);
        let ages = [59, 3599, 7200, 864_000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(ages, ["59 s", "59 min", "2 h", "10 d"]);
    }
}
