//! `[[background]]`: jobs whose traffic shares the network with the nodes'.
//!
//! Says what was written; how many hosts a job needs, and whether it can be played at all, is found out by `plan/background.rs`.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::quantity::Duration;

/// A job that nobody runs: a traced or generated run that is played again, on hosts of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BackgroundTable {
    /// What it is called in results; the name of its run directory when absent.
    pub name: Option<String>,
    /// A run directory, traced or generated, or a job that was prepared of one; relative to the scenario's file.
    pub run: PathBuf,
    /// How many such jobs there are, each on hosts of its own.
    #[serde(default = "one")]
    pub copies: u32,
    /// When it begins, after the nodes do; with them when absent.
    pub start: Option<Duration>,
    /// How often it is played, one time after the other; until the run ends when absent.
    pub times: Option<u64>,
    /// What its processors' own work is multiplied by: 0.5 for processors that are twice as fast.
    #[serde(default = "as_traced")]
    pub compute_scale: f64,
}

/// What a job is called that has no name: as its run directory is.
pub(crate) fn name_of(run: &Path) -> String {
    let name = run.file_name().unwrap_or("background".as_ref());
    name.to_string_lossy().into_owned()
}

impl BackgroundTable {
    /// What it is called.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| name_of(&self.run))
    }
}

fn one() -> u32 {
    1
}

fn as_traced() -> f64 {
    1.0
}
