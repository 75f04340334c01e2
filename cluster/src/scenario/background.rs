//! `[[background]]`: jobs whose traffic shares the network with the nodes.
//!
//! The values as written; `plan/background.rs` checks the jobs and counts their hosts.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::quantity::Duration;

/// A traced or synthetic run that is replayed on hosts of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BackgroundTable {
    /// Name in results; by default the name of its run directory.
    pub name: Option<String>,
    /// Run directory, traced or synthetic, or prepared job, relative to the scenario's file.
    pub run: PathBuf,
    /// Number of such jobs, each on different hosts.
    #[serde(default = "one")]
    pub copies: u32,
    /// Start, relative to the nodes' start; zero when absent.
    pub start: Option<Duration>,
    /// Number of successive replays; until the run ends when absent.
    pub times: Option<u64>,
    /// Factor of its processors' work time: 0.5 for processors that are twice as fast.
    #[serde(default = "as_traced")]
    pub compute_scale: f64,
}

/// The default name of a job: its run directory's.
pub(crate) fn name_of(run: &Path) -> String {
    let name = run.file_name().unwrap_or("background".as_ref());
    name.to_string_lossy().into_owned()
}

impl BackgroundTable {
    /// Its name.
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
