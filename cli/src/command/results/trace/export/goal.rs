//! `--format goal` and `goal-binary`: a file for LogGOPSim and ATLAHS.
//!
//! The whole trace is in memory, as its collective operations become messages. Called by `export`.

use std::io;
use std::path::Path;

use anyhow::Result;
use belljar_files::OutputFile;
use belljar_formats::Messages;

use super::{file, say_left_out};
use crate::command::predicting::replay::job::{AS_RUN, program_of};

pub(super) fn write(
    trace: &Path,
    out: &Path,
    write: impl FnOnce(&Messages<'_>, &mut OutputFile) -> io::Result<()>,
) -> Result<()> {
    let program = program_of(trace, AS_RUN)?;
    let messages = Messages::new(&program, false);
    file(out, |file| write(&messages, file))?;
    say_left_out(messages.left_out());
    Ok(())
}
