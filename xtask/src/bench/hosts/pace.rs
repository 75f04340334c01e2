//! Speed of virtual time in a run, as an observer measures it (`belljar watch` does the same).
//!
//! This module measures host time.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::bench::median;

/// Time limit until a run's nodes are busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval of checks until then.
const STEP: Duration = Duration::from_millis(50);
/// Number of pieces of a run, whose median counts, and the length of each in host time.
const PIECES: usize = 10;
const PIECE: Duration = Duration::from_millis(250);

/// A connection to a run.
pub(super) struct Watch(BufReader<UnixStream>);

impl Watch {
    /// Connects to the run in `directory`, once its command has written `word`.
    pub(super) fn when(directory: &Path, word: &str) -> Result<Self> {
        let until = Instant::now() + PATIENCE;
        let socket = directory.join("control.sock");
        let console = directory.join("stdout");
        let mut watch: Option<Self> = None;
        while Instant::now() < until {
            thread::sleep(STEP);
            match &mut watch {
                // A look flushes the nodes' outputs to their files.
                Some(watch) => drop(watch.virtual_time()?),
                None => watch = Self::connect(&socket).ok(),
            }
            let said = fs::read(&console).unwrap_or_default();
            if let Some(watch) = watch.take_if(|_| String::from_utf8_lossy(&said).contains(word)) {
                return Ok(watch);
            }
        }
        bail!("nodes were not busy within {} s", PATIENCE.as_secs())
    }

    fn connect(socket: &Path) -> Result<Self> {
        let mut watch = Self(BufReader::new(UnixStream::connect(socket)?));
        // The run first introduces itself.
        watch.0.read_line(&mut String::new())?;
        Ok(watch)
    }

    /// Seconds of host time for each second of virtual time: the median of some pieces.
    pub(super) fn slowness(&mut self) -> Result<f64> {
        let mut pieces = Vec::new();
        let mut before = (self.virtual_time()?, Instant::now());
        for _ in 0..PIECES {
            thread::sleep(PIECE);
            let after = (self.virtual_time()?, Instant::now());
            let host = after.1.duration_since(before.1).as_secs_f64();
            // On a busy machine virtual time may stand still for a whole piece, which then counts
            // as infinitely slow.
            pieces.push(host / (after.0 - before.0));
            before = after;
        }
        let median = median(&mut pieces);
        if !median.is_finite() {
            bail!("virtual time stands still");
        }
        Ok(median)
    }

    /// In seconds.
    fn virtual_time(&mut self) -> Result<f64> {
        self.0.get_mut().write_all(b"\"look\"\n")?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let told = line.split("\"now_ps\":").nth(1);
        let told = told.and_then(|rest| rest.split([',', '}']).next());
        let picoseconds: f64 = told
            .and_then(|value| value.trim().parse().ok())
            .with_context(|| format!("the run says {line:?} of itself"))?;
        Ok(picoseconds / 1e12)
    }
}
