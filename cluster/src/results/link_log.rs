//! Loads of links over time, as `links.csv`.
//!
//! A row for each direction of a link and each window of time with activity, in order of time, then
//! of links; `up` is away from the link's first end:
//!
//! | column | |
//! |---|---|
//! | `time_s` | beginning of the window, in seconds |
//! | `link`, `direction` | the link and its direction |
//! | `frames`, `bytes` | transmitted completely in the window; without preamble, checksum, gap |
//! | `queue_max`, `queue_end` | the longest queue, and the queue at the window's end, in bytes |
//! | `dropped`, `lost`, `failed` | frames: queue full; lost by chance; link failed |
//! | `busy` | share of the window with the wire busy |

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use belljar_fabric::{Fabric, LinkRecord, LinkWindow, Topology};
use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::results::run_directory::{RunDirectory, RunDirectoryError};

/// Its name in a run directory.
pub const LINKS_FILE: &str = "links.csv";
const COLUMNS: &str =
    "time_s,link,direction,frames,bytes,queue_max,queue_end,dropped,lost,failed,busy";

/// Writes `links.csv`.
pub struct LinkLog {
    file: BufWriter<File>,
    names: Vec<String>,
    /// Length of a window, in picoseconds.
    length: u64,
    /// No new window is complete before this time.
    next: Time,
}

/// Length of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkLogState {
    length: u64,
    next: Time,
}

impl LinkLogState {
    /// The file in the run directory, and its length.
    pub(crate) fn file(&self) -> (String, u64) {
        (LINKS_FILE.to_owned(), self.length)
    }
}

impl LinkLog {
    /// Starts the file with windows of this length; no file without a length.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn start(
        window: Option<Span>,
        topology: &Topology,
        directory: &RunDirectory,
    ) -> Result<Option<Self>, RunDirectoryError> {
        let Some(length) = window else {
            return Ok(None);
        };
        let log = Self {
            file: directory.file(LINKS_FILE)?,
            names: names(topology),
            length: length.as_ps(),
            next: Time::ZERO,
        };
        Ok(Some(log))
    }

    /// Saves the file's length.
    ///
    /// # Errors
    /// If the host cannot write buffered data.
    pub(crate) fn save(&mut self) -> io::Result<LinkLogState> {
        Ok(LinkLogState {
            length: self.file.stream_position()?,
            next: self.next,
        })
    }

    /// Continues the file from its [saved](Self::save) state.
    ///
    /// # Errors
    /// If it cannot be continued.
    pub(crate) fn resume(
        window: Option<Span>,
        topology: &Topology,
        directory: &RunDirectory,
        saved: Option<LinkLogState>,
    ) -> Result<Option<Self>, RunDirectoryError> {
        let (Some(saved), Some(length)) = (saved, window) else {
            return Self::start(window, topology, directory);
        };
        Ok(Some(Self {
            file: directory.resume_file(LINKS_FILE, saved.length)?,
            names: names(topology),
            length: length.as_ps(),
            next: saved.next,
        }))
    }

    /// Writes the windows that end at `settled` or before; all at `Time::MAX`, the end of the file.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn write(&mut self, fabric: &mut Fabric, settled: Time) -> io::Result<()> {
        if settled < self.next {
            return Ok(());
        }
        if self.next == Time::ZERO {
            writeln!(self.file, "{COLUMNS}")?;
        }
        for record in fabric.take_records(settled) {
            write_row(&mut self.file, &self.names, self.length, &record)?;
        }
        let window = settled.as_ps() / self.length;
        self.next = Time::from_ps((window + 1).saturating_mul(self.length));
        if settled == Time::MAX {
            self.file.flush()?;
        }
        Ok(())
    }
}

fn names(topology: &Topology) -> Vec<String> {
    let links = 0..topology.links().len() as u32;
    links.map(|link| topology.link_name(link)).collect()
}

fn write_row(
    file: &mut impl Write,
    names: &[String],
    length: u64,
    record: &LinkRecord,
) -> io::Result<()> {
    let name = &names[record.port as usize / 2];
    let direction = if record.port.is_multiple_of(2) {
        "up"
    } else {
        "down"
    };
    let ns = record.start.as_ps() / 1000;
    let (seconds, nanoseconds) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let LinkWindow {
        frames,
        bytes,
        longest_queue,
        queue,
        drops,
        lost,
        failed,
        busy_ps,
        ..
    } = record.window;
    // In millionths, by whole numbers, for equal results on every host.
    let busy = u128::from(busy_ps) * 1_000_000 / u128::from(length);
    let (whole, millionths) = (busy / 1_000_000, busy % 1_000_000);
    writeln!(
        file,
        "{seconds}.{nanoseconds:09},{name},{direction},{frames},{bytes},{longest_queue},{queue},\
         {drops},{lost},{failed},{whole}.{millionths:06}"
    )
}
