//! Colours of warnings, errors and results.
//!
//! `--color` decides, else NO_COLOR, CLICOLOR and the kind of the stream: a pipe and a file get no colours. Called by `main` and the other modules here.
#![allow(clippy::print_stderr)]

use std::io::{self, Write};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use clap::ColorChoice;

use super::progress;

/// Errors.
const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Warnings.
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Decides about colours, for the rest of the process.
pub(crate) fn choose(choice: ColorChoice) {
    let choice = match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::AlwaysAnsi,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// True if standard error takes colours.
pub(super) fn of_errors() -> bool {
    AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}

/// True if standard output takes colours.
pub(in crate::command) fn of_results() -> bool {
    AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Writes a line about a failure: the kind, then the reason if there is one.
pub(crate) fn error_line(kind: &str, reason: Option<&str>) {
    line(ERROR, kind, reason);
}

/// Writes a warning's line.
pub(crate) fn warning_line(warning: &str) {
    line(WARNING, "warning", Some(warning));
}

fn line(style: Style, kind: &str, rest: Option<&str>) {
    let mut out = anstream::stderr();
    progress::above(|| {
        // A closed terminal is no error of the command, which may be ending for that reason.
        let _ = match rest {
            Some(rest) => writeln!(out, "{style}{kind}:{style:#} {rest}"),
            None => writeln!(out, "{style}{kind}{style:#}"),
        };
    });
}

/// Writes a line on standard error.
pub(crate) fn plain_line(line: &str) {
    // As above.
    progress::above(|| drop(writeln!(io::stderr(), "{line}")));
}
