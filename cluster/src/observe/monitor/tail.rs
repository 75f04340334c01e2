//! The end of a console's file, for a screen that is not the guest's terminal.
//!
//! Reads a bounded piece of the file, and removes all control characters and sequences. Called by
//! `belljar watch` for each look.

use belljar_files::open_input;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes that are read.
const BYTES: u64 = 16 << 10;

/// The last lines of a file, without control sequences.
///
/// # Errors
/// If the host refuses the file.
pub fn tail(path: &Path) -> io::Result<Vec<String>> {
    let mut file = open_input(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    Ok(lines(&String::from_utf8_lossy(&bytes)))
}

/// Lines of `text` without control characters and sequences (ECMA-48, 5.4).
fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => lines.push(String::new()),
            '\u{1b}' => {
                if letters.next_if_eq(&'[').is_some() {
                    // Parameters, then one final letter.
                    while letters
                        .next_if(|letter| !('@'..='~').contains(letter))
                        .is_some()
                    {}
                    letters.next();
                }
            }
            '\t' => lines
                .iter_mut()
                .last()
                .into_iter()
                .for_each(|line| line.push(' ')),
            letter if letter.is_control() => {}
            letter => lines
                .iter_mut()
                .last()
                .into_iter()
                .for_each(|line| line.push(letter)),
        }
    }
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_is_left() {
        let text = "one\r\n\u{1b}[31mred\u{1b}[0m\u{7}\n\u{1b}cx\u{1b}[2";
        assert_eq!(lines(text), ["one", "red", "cx"]);
        assert!(lines("").is_empty());
    }

    #[test]
    fn only_the_end_of_a_long_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node0.log");
        std::fs::write(&path, "line\n".repeat(100_000) + "last").unwrap();
        let lines = tail(&path).unwrap();
        assert!(lines.len() < 4000 && lines.last().unwrap() == "last");
    }
}
