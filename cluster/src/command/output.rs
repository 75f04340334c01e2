//! Results on standard output.
//!
//! Whoever reads them may have had enough, as `head` has: what a command did is done all the
//! same, and it ends as if all had been read. So nothing here goes through `print!`, which
//! panics then.

use std::fmt::Display;
use std::io::{self, ErrorKind, StdoutLock, Write};

use anyhow::{Context, Result};

/// Writes results by `write`.
///
/// # Errors
/// Standard output takes no more, say because its disk is full; not when nobody reads it.
pub(super) fn show(write: impl FnOnce(&mut StdoutLock<'_>) -> io::Result<()>) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = write(&mut out).and_then(|()| out.flush());
    read_or_not(written)
}

/// Writes text as it is.
///
/// # Errors
/// As [`show`].
pub(super) fn print(text: impl Display) -> Result<()> {
    show(|out| write!(out, "{text}"))
}

/// Writes a line.
///
/// # Errors
/// As [`show`].
pub(super) fn say(line: impl Display) -> Result<()> {
    show(|out| writeln!(out, "{line}"))
}

/// Takes it as no error that nobody reads any more.
pub(super) fn read_or_not(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
