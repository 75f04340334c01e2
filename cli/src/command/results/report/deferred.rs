//! A process that writes the report of a run after its end.
//!
//! Once guests run, the process of a run may open files in the run's directory only, but a report needs the recipe, the image and the program's files. So the process of the
//! report starts before these limits apply, and waits on its standard input for the directory. It ends without a report if the run ends without a complete directory.

use std::env;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::command::terminal::notes;

/// The process, until it is asked for the report.
pub(in crate::command) struct DeferredReport(Child);

impl DeferredReport {
    /// Starts the process.
    ///
    /// # Errors
    /// Returns an error if this host cannot start it.
    pub(in crate::command) fn start() -> Result<Self> {
        let mut command = Command::new(env::current_exe().context("cannot find belljar itself")?);
        command.args(["report", super::FROM_INPUT]);
        if !notes::are_wanted() {
            command.arg("--quiet");
        }
        // Ctrl-C of the terminal ends the run, which then ends this process.
        let child = command.stdin(Stdio::piped()).process_group(0).spawn();
        Ok(Self(child.context("cannot start the report's process")?))
    }

    /// Writes the report of the run in `directory`, and prints its path. The process prints a failure as a warning.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub(in crate::command) fn write(mut self, directory: &Path) -> io::Result<()> {
        let mut input = self.0.stdin.take();
        let line = format!("{}\n", directory.display());
        let told = input.as_mut().map(|input| input.write_all(line.as_bytes()));
        drop(input);
        self.0.wait()?;
        told.unwrap_or(Ok(()))
    }
}
