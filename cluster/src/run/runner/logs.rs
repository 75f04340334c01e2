//! All outputs of one node, each with its file in the run directory, here or on another host.
//!
//! Each is truncated at the same length on every host. Written by the node's runner, and saved with it in
//! checkpoints.

use std::fs::File;
use std::io::{self, BufWriter};

use super::ConsoleLog;
use crate::results::run_directory::{RunDirectory, RunDirectoryError};
use crate::results::stream::Stream;

/// The files of a node's outputs. Outputs without a file are discarded.
#[derive(Debug)]
pub(crate) struct Logs([Option<ConsoleLog>; Stream::ALL.len()]);

impl Logs {
    /// Makes empty files of node `node`; without `directory`, another host has them.
    ///
    /// # Errors
    /// If the host refuses one.
    pub(crate) fn begin(
        node: u32,
        profiled: bool,
        directory: Option<&RunDirectory>,
    ) -> Result<Self, RunDirectoryError> {
        let none = [0; Stream::ALL.len()];
        Self::open(node, profiled, directory, none, |directory, file, _| {
            directory.file(file)
        })
    }

    /// Opens the same files with the given `lengths`, for appending.
    ///
    /// # Errors
    /// If one is shorter, or the host refuses it.
    pub(crate) fn resume(
        node: u32,
        profiled: bool,
        directory: Option<&RunDirectory>,
        lengths: Lengths,
    ) -> Result<Self, RunDirectoryError> {
        Self::open(
            node,
            profiled,
            directory,
            lengths,
            RunDirectory::resume_file,
        )
    }

    fn open(
        node: u32,
        profiled: bool,
        directory: Option<&RunDirectory>,
        lengths: Lengths,
        open: impl Fn(&RunDirectory, &str, u64) -> Result<BufWriter<File>, RunDirectoryError>,
    ) -> Result<Self, RunDirectoryError> {
        let mut logs = Self(Default::default());
        for stream in Stream::ALL.into_iter().filter(|it| it.is_of(profiled)) {
            let Some(file) = stream.file(node) else {
                continue;
            };
            let length = lengths[stream.number()];
            let log = match directory {
                Some(directory) => ConsoleLog::file(open(directory, &file, length)?, length),
                None => ConsoleLog::relayed(length),
            };
            logs.0[stream.number()] = Some(log);
        }
        Ok(logs)
    }

    /// Writes the node's outputs.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0[stream.number()] {
            // As long as the run determines, not as the node wants.
            Some(log) if stream == Stream::Profile => {
                log.put(bytes).map_err(|error| named(stream, error))
            }
            Some(log) => log.write(bytes).map_err(|error| named(stream, error)),
            None => Ok(()),
        }
    }

    /// Truncated outputs.
    pub(crate) fn full(&self) -> impl Iterator<Item = Stream> {
        let is_full = |log: &Option<ConsoleLog>| log.as_ref().is_some_and(ConsoleLog::is_full);
        let logs = Stream::ALL.into_iter().zip(&self.0);
        logs.filter(move |(stream, log)| *stream != Stream::Profile && is_full(log))
            .map(|(stream, _)| stream)
    }

    /// Bytes in each file, or for it.
    pub(crate) fn lengths(&self) -> Lengths {
        let length = |log: &Option<ConsoleLog>| log.as_ref().map_or(0, ConsoleLog::position);
        Stream::ALL.map(|stream| length(&self.0[stream.number()]))
    }

    /// Flushes all files.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        for (stream, log) in Stream::ALL.into_iter().zip(&mut self.0) {
            let flushed = log.as_mut().map_or(Ok(()), ConsoleLog::flush);
            flushed.map_err(|error| named(stream, error))?;
        }
        Ok(())
    }

    /// Takes the bytes for another host.
    pub(crate) fn take(&mut self) -> Vec<(Stream, Vec<u8>)> {
        let logs = Stream::ALL.into_iter().zip(&mut self.0);
        let taken = logs.filter_map(|(stream, log)| Some((stream, log.as_mut()?.take())));
        taken.filter(|(_, bytes)| !bytes.is_empty()).collect()
    }
}

impl super::Runner {
    /// The last lines of the console, for an error message.
    pub fn last_words(&self) -> String {
        let lines = self
            .tail
            .iter()
            .map(String::as_str)
            .chain(Some(self.line.as_str()));
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        lines.iter().map(|line| format!("    {line}\n")).collect()
    }
}

/// An error of the host, with its output.
pub(crate) fn named(stream: Stream, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", stream.name()))
}

/// Bytes of each output, by its number.
pub(crate) type Lengths = [u64; Stream::ALL.len()];
