//! A finished run, from its files.
//!
//! Reads `summary.json` of a run directory. Unknown keys are permitted; a missing required key is an
//! error. Called by `belljar watch` for directories without a running run.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use belljar_files::read_input;
use belljar_sim::figures::{counted, decimal};
use serde::Deserialize;

/// Errors of reading a finished run.
#[derive(Debug, thiserror::Error)]
pub enum FinishedError {
    /// There is no summary.
    #[error(
        "no run is active in {directory}, and none has ended there: cannot read {file}: {source}"
    )]
    Read {
        /// The directory.
        directory: PathBuf,
        /// The missing file.
        file: &'static str,
        /// The host's reason.
        source: std::io::Error,
    },
    /// The summary is invalid.
    #[error("{0}/summary.json is not a summary of a run: {1}")]
    Summary(PathBuf, serde_json::Error),
}

/// The shown part of a summary.
#[derive(Deserialize)]
struct Figures {
    scenario: String,
    ending: String,
    virtual_time_ps: u64,
    mpi_calls: u64,
    nodes: Vec<NodeFigures>,
    links: Vec<LinkFigures>,
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct NodeFigures {
    node: u32,
    instructions: u64,
    frames_sent: u64,
}

#[derive(Deserialize)]
struct LinkFigures {
    link: String,
    up: WayFigures,
    down: WayFigures,
}

#[derive(Deserialize)]
struct WayFigures {
    bytes: u64,
    busy_ps: u64,
}

/// Maximum number of rows of each table.
const ROWS: usize = 16;

/// The figures of the run that ended in `directory`, in lines.
///
/// # Errors
/// If no run ended there.
pub fn finished(directory: &Path) -> Result<String, FinishedError> {
    let mut incomplete = directory.as_os_str().to_owned();
    incomplete.push(".incomplete");
    let read = |place: &Path| read_input(place.join("summary.json"));
    let content = read(directory).or_else(|error| read(Path::new(&incomplete)).map_err(|_| error));
    let content = content.map_err(|source| FinishedError::Read {
        directory: directory.to_owned(),
        file: "summary.json",
        source,
    })?;
    let figures: Figures = serde_json::from_slice(&content)
        .map_err(|error| FinishedError::Summary(directory.to_owned(), error))?;
    Ok(render(figures))
}

fn render(mut figures: Figures) -> String {
    let mut text = String::new();
    let seconds = figures.virtual_time_ps as f64 / 1e12;
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{}: not running; {}",
        figures.scenario, figures.ending
    );
    let _ = writeln!(
        text,
        "{} s of virtual time, {} recorded",
        decimal(seconds, 6),
        counted(figures.mpi_calls, "MPI call")
    );
    for node in figures.nodes.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "node {:>4} {:>16} instructions {:>10} frames",
            node.node, node.instructions, node.frames_sent
        );
    }
    if figures.nodes.len() > ROWS {
        let _ = writeln!(text, "and {} more nodes", figures.nodes.len() - ROWS);
    }
    let bytes = |link: &LinkFigures| link.up.bytes.saturating_add(link.down.bytes);
    figures
        .links
        .sort_by_key(|link| std::cmp::Reverse(bytes(link)));
    for link in figures.links.iter().take(ROWS) {
        let busy = link.up.busy_ps.max(link.down.busy_ps) as f64;
        let share = 100.0 * busy / (figures.virtual_time_ps.max(1) as f64);
        let _ = writeln!(
            text,
            "link {:<24} {:>14} bytes {:>7} % busy",
            link.link,
            bytes(link),
            decimal(share, 3)
        );
    }
    for warning in &figures.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}
