//! Verdicts on runs of an exploration.
//!
//! A run fails if it hangs, ends with an error, uses MPI wrongly, has other results than the first run that passed, or by the user's predicate.
//! A run that reaches its limit without a stuck rank is undecided. Called for each run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use belljar_analysis::{RunFacts, Severity};
use belljar_files::read_input_text;
use belljar_trace::TRACE_FILE;
use serde_json::Value;
use wildmatch::WildMatch;

use super::faults::{Fault, FaultKind};
use crate::command::results::trace::hang::{self, unrecorded};

/// Most bytes of a compared file.
const MOST_BYTES: u64 = 64 << 20;

/// The verdict on a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// Ranks cannot go on.
    Hang(String),
    /// The limit was reached, and ranks may go on.
    Undecided(String),
    /// The run ended before its workload.
    Broken(String),
    /// The workload failed.
    Exit(i64),
    /// The failure of the run met nothing.
    NotInjected(String),
    /// The job ended with an error after a failure that cost it a rank.
    Noticed(i64),
    /// An error of MPI use.
    Mpi(String),
    /// A result differs from that of the first run that passed.
    Differs(String),
    /// The predicate failed.
    Predicate(String),
}

impl Verdict {
    /// True if the run failed.
    pub(super) fn fails(&self) -> bool {
        !matches!(
            self,
            Self::Passed | Self::Noticed(_) | Self::Undecided(_) | Self::NotInjected(_)
        )
    }

    /// The kind of verdict, for tables.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Hang(_) => "hang",
            Self::Undecided(_) => "undecided",
            Self::Broken(_) => "broken",
            Self::Exit(_) => "exit-code",
            Self::Noticed(_) => "noticed",
            Self::NotInjected(_) => "not-injected",
            Self::Mpi(_) => "mpi-error",
            Self::Differs(_) => "different-result",
            Self::Predicate(_) => "predicate",
        }
    }

    /// The details.
    pub(super) fn detail(&self) -> String {
        match self {
            Self::Passed => String::new(),
            Self::Exit(code) | Self::Noticed(code) => {
                format!("the workload ended with exit code {code}")
            }
            Self::Hang(text)
            | Self::Undecided(text)
            | Self::Broken(text)
            | Self::NotInjected(text)
            | Self::Mpi(text)
            | Self::Differs(text)
            | Self::Predicate(text) => text.clone(),
        }
    }
}

/// Rules of verdicts.
pub(super) struct Judge {
    /// Patterns of result files.
    pub(super) compare: Vec<String>,
    /// Relative difference of equal numbers.
    pub(super) tolerance: f64,
    /// The user's command.
    pub(super) predicate: Option<String>,
}

impl Judge {
    /// The verdict on the run in `directory`, whose summary is given. A job that lost a rank by `fault` may end with an error, and leaves MPI
    /// without the calls that the checks require.
    pub(super) fn judge(
        &self,
        directory: &Path,
        summary: &Value,
        fault: Option<&Fault>,
    ) -> Result<Verdict> {
        if let Some(reason) = fault.and_then(|fault| not_injected(fault, summary)) {
            return Ok(Verdict::NotInjected(reason));
        }
        let lossy = fault.filter(|fault| fault.kind.loses_rank());
        let loses_rank = lossy.is_some();
        let code = summary["exit_code"].as_i64();
        let Some(code) = code else {
            let ending = summary["ending"].as_str().unwrap_or_default().to_owned();
            return Ok(match hang::verdict(directory) {
                Some(sentence) => Verdict::Hang(sentence),
                None if ending.contains("limit") && loses_rank => {
                    let seconds =
                        lossy.map_or(0, |fault| fault.kind.recovery_ps()) / 1_000_000_000_000;
                    Verdict::Hang(format!(
                        "the job does not end within {seconds} s of virtual time after the failure"
                    ))
                }
                None if ending.contains("limit") => Verdict::Undecided(ending),
                None => Verdict::Broken(ending),
            });
        };
        if code != 0 {
            return Ok(match loses_rank {
                true => Verdict::Noticed(code),
                false => Verdict::Exit(code),
            });
        }
        if !loses_rank && let Some(error) = mpi_error(directory, summary)? {
            return Ok(Verdict::Mpi(error));
        }
        self.predicate(directory)
    }

    fn predicate(&self, directory: &Path) -> Result<Verdict> {
        let Some(predicate) = &self.predicate else {
            return Ok(Verdict::Passed);
        };
        let status = Command::new("sh")
            .args(["-c", predicate])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("cannot start the predicate")?;
        Ok(match status.success() {
            true => Verdict::Passed,
            false => Verdict::Predicate(format!("the predicate ended with {status}")),
        })
    }

    /// The first compared file that differs from that of the run in `base`.
    pub(super) fn difference(&self, directory: &Path, base: &Path) -> Result<Option<String>> {
        if directory == base || self.compare.is_empty() {
            return Ok(None);
        }
        let patterns: Vec<WildMatch> = self
            .compare
            .iter()
            .map(|text| WildMatch::new(text))
            .collect();
        let mut names = self::names(base, Path::new(""))?;
        names.extend(self::names(directory, Path::new(""))?);
        names.sort();
        names.dedup();
        for name in names {
            let text = name.to_string_lossy();
            let is_meant = patterns.iter().any(|pattern| pattern.matches(&text));
            if is_meant && !self.are_equal(&directory.join(&name), &base.join(&name))? {
                return Ok(Some(format!("{text} differs")));
            }
        }
        Ok(None)
    }

    fn are_equal(&self, one: &Path, other: &Path) -> Result<bool> {
        let [one, other] = [one, other].map(|path| match std::fs::metadata(path) {
            Ok(found) if found.len() > MOST_BYTES => {
                anyhow::bail!(
                    "{} is too large to compare: {} bytes, at most 64 MiB",
                    path.display(),
                    found.len()
                )
            }
            Ok(_) => Ok(Some(std::fs::read(path)?)),
            Err(_) => Ok(None),
        });
        let (one, other) = (one?, other?);
        if one == other {
            return Ok(true);
        }
        let (Some(one), Some(other)) = (one, other) else {
            return Ok(false);
        };
        Ok(self.tolerance > 0.0 && are_near(&one, &other, self.tolerance))
    }
}

/// The reason why the failure of a run met nothing; `None` if it did.
fn not_injected(fault: &Fault, summary: &Value) -> Option<String> {
    match fault.kind {
        FaultKind::Loss => {
            let losses = summary["chosen_losses"].as_array()?;
            let own = losses.iter().find(|loss| {
                let flow = [&loss["from"], &loss["to"], &loss["at_ps"]].map(Value::as_u64);
                let to = fault.to.map(u64::from);
                flow == [Some(u64::from(fault.node)), to, Some(fault.at_ps)]
            })?;
            let is_missed = own["lost"].as_u64() == Some(0);
            is_missed.then(|| "no frame left the card after that time".to_owned())
        }
        FaultKind::Kill => {
            let missed = summary["nodes"][fault.node as usize]["missed_kills"].as_array()?;
            let mut missed = missed.iter();
            let is_own = missed.any(|kill| kill["at_ps"].as_u64() == Some(fault.at_ps));
            is_own.then(|| "no process of the rank was there".to_owned())
        }
        FaultKind::Die | FaultKind::Restart | FaultKind::Pause | FaultKind::Link => None,
    }
}

/// True if two texts have the same words, except for numbers that differ by at most the share `tolerance`.
fn are_near(one: &[u8], other: &[u8], tolerance: f64) -> bool {
    let texts = (std::str::from_utf8(one), std::str::from_utf8(other));
    let (Ok(one), Ok(other)) = texts else {
        return false;
    };
    let (mut one, mut other) = (one.split_whitespace(), other.split_whitespace());
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => {
                let (Ok(one), Ok(other)) = (one.parse::<f64>(), other.parse::<f64>()) else {
                    return false;
                };
                let most = tolerance * one.abs().max(other.abs());
                let is_near = (one - other).abs() <= most;
                if !is_near {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

/// The names of all files of a run directory that can be results.
fn names(directory: &Path, below: &Path) -> Result<Vec<PathBuf>> {
    let folder = directory.join(below);
    let mut names = Vec::new();
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = below.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && !name.ends_with("checkpoint") {
            names.extend(self::names(directory, &name)?);
        } else if kind.is_file() {
            names.push(name);
        }
    }
    Ok(names)
}

/// The first error of MPI use.
fn mpi_error(directory: &Path, summary: &Value) -> Result<Option<String>> {
    let path = directory.join(TRACE_FILE);
    let run = RunFacts {
        end_ps: summary["virtual_time_ps"].as_u64(),
        stderr: read_input_text(directory.join("stderr")).ok(),
        missing: unrecorded(&path),
        lost: hang::lost(&path)?,
        // The verdict on the run has its exit code.
        end: None,
    };
    let (check, _) = belljar_analysis::check(&path, &run, None)?;
    let mut errors = check.findings.iter();
    let error = errors.find(|finding| finding.severity == Severity::Error);
    Ok(error.map(|finding| finding.text.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_differ_by_the_tolerance() {
        let near = |one: &str, other: &str, tolerance| {
            are_near(one.as_bytes(), other.as_bytes(), tolerance)
        };
        assert!(near("sum 1.0\n", "sum  1.000001", 1e-5));
        assert!(!near("sum 1.0", "sum 1.001", 1e-5));
        assert!(!near("sum 1.0", "total 1.0", 1e-5));
        assert!(!near("1 2", "1", 1.0) && !near("nan", "1", 1.0));
    }

    #[test]
    fn compared_files_are_those_of_the_patterns() {
        let folder = tempfile::tempdir().unwrap();
        let [base, run] = ["base", "run"].map(|name| folder.path().join(name));
        for (path, value) in [(&base, "1.0"), (&run, "1.1")] {
            std::fs::create_dir_all(path.join("files")).unwrap();
            std::fs::write(path.join("stdout"), "same").unwrap();
            std::fs::write(path.join("files/a.dat"), value).unwrap();
        }
        let differs = |pattern: &str, tolerance| {
            let judge = Judge {
                compare: vec![pattern.to_owned()],
                tolerance,
                predicate: None,
            };
            judge.difference(&run, &base).unwrap().is_some()
        };
        assert!(differs("files/*.dat", 0.0) && differs("*", 0.01));
        assert!(!differs("stdout", 0.0) && !differs("files/*.dat", 0.2));
        std::fs::remove_file(run.join("stdout")).unwrap();
        assert!(differs("stdout", 0.0));
    }
}
