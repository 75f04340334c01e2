//! Results on standard output.
//!
//! The reader may close the pipe early, as `head` does: the command still does all of its
//! work, and ends as if everything had been read. Therefore nothing here uses `print!`, which
//! panics in this case.
//!
//! Text may come from untrusted files and guests: characters that control the terminal are
//! written as escapes, such as `\x1b`.

use std::fmt::Display;
use std::io::{self, ErrorKind, StdoutLock, Write};

use anyhow::{Context, Result};

use super::terminal::highlight::Highlight;
use super::terminal::{colour, progress};

/// Standard output for results.
pub(super) type Results<'a> = Harmless<Highlight<StdoutLock<'a>>>;

/// Writes results by `write`.
///
/// # Errors
/// If standard output cannot be written, for example because its disk is full. A closed pipe
/// is no error.
pub(super) fn show(write: impl FnOnce(&mut Results<'_>) -> io::Result<()>) -> Result<()> {
    progress::clear();
    let highlighted = Highlight::new(io::stdout().lock(), colour::of_results());
    let mut out = Harmless::new(highlighted);
    let written = write(&mut out).and_then(|()| out.flush());
    read_or_not(written)
}

/// Writes text unchanged.
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

/// Characters of a text that are shown of one line of an error.
const LONGEST_LINE: usize = 2000;

/// An error's text for a terminal, without control characters; long lines are cut.
pub(crate) fn fit_for_terminal(text: &str) -> String {
    let mut fit = Harmless::new(Vec::new());
    for (number, line) in text.lines().enumerate() {
        let short: String = line.chars().take(LONGEST_LINE).collect();
        let cut = if short.len() < line.len() { "..." } else { "" };
        let end = if number == 0 { "" } else { "\n" };
        // Writing to a vector cannot fail.
        let _ = write!(fit, "{end}{short}{cut}");
    }
    String::from_utf8_lossy(&fit.into_inner()).into_owned()
}

/// Writes text without control characters of terminals.
pub(crate) struct Harmless<W> {
    out: W,
    /// True if the last byte may be the first of a two-byte control character (C1).
    halved: bool,
}

impl<W: Write> Harmless<W> {
    pub(crate) fn new(out: W) -> Self {
        let halved = false;
        Self { out, halved }
    }

    fn into_inner(self) -> W {
        self.out
    }

    fn put(&mut self, byte: u8) -> io::Result<()> {
        let halved = std::mem::take(&mut self.halved);
        match byte {
            C1_FIRST => {
                self.halved = true;
                Ok(())
            }
            0x80..=0x9f if halved => write!(self.out, "\\u{{{byte:02x}}}"),
            b'\n' | b'\t' => self.out.write_all(&[byte]),
            0..0x20 | 0x7f => write!(self.out, "\\x{byte:02x}"),
            _ if halved => self.out.write_all(&[C1_FIRST, byte]),
            _ => self.out.write_all(&[byte]),
        }
    }
}

/// The first byte in UTF-8 of the characters U+0080 to U+00BF.
const C1_FIRST: u8 = 0xc2;

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_plain = |&byte: &u8| matches!(byte, b'\n' | b'\t' | 0x20..0x7f);
        if !self.halved && bytes.iter().all(is_plain) {
            return self.out.write(bytes);
        }
        for &byte in bytes {
            self.put(byte)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Ignores the error of a closed pipe.
pub(super) fn read_or_not(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_controls_the_terminal() {
        for (text, shown) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("caf\u{e9} \u{b5}s \u{20ac}", "caf\u{e9} \u{b5}s \u{20ac}"),
            ("\x1b[31mred\x07\r", "\\x1b[31mred\\x07\\x0d"),
            ("\u{9b}31m\x7f", "\\u{9b}31m\\x7f"),
        ] {
            let mut out = Harmless::new(Vec::new());
            // In pieces, as formatting writes them.
            for byte in text.as_bytes() {
                out.write_all(&[*byte]).unwrap();
            }
            assert_eq!(String::from_utf8(out.into_inner()).unwrap(), shown);
        }
    }

    #[test]
    fn errors_are_cut_where_they_are_very_long() {
        let text = format!("first\n{}\x1b\nlast", "x".repeat(200_000));
        let fit = fit_for_terminal(&text);
        assert!(fit.len() < 2100, "{} bytes", fit.len());
        assert!(fit.starts_with("first\n") && fit.ends_with("x...\nlast"));
    }
}
