//! Lines of an agent's output.
//!
//! Agents' output becomes lines of at most [`LONGEST`](lines::LONGEST) bytes; longer ones are split. Called by the threads
//! that read from agents: threads of `child` read pipes, the thread of `ssh` reads pieces of a channel.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;

/// Longer lines are cut into pieces of this many bytes.
pub(crate) const LONGEST: usize = 64 << 10;

/// Unread lines after which the agent blocks.
pub(crate) const WAITING: usize = 1024;

/// Receives each line of agents' standard error: the host's name, and the line.
pub type Tell = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Passes lines on to this process's standard error, as `host: line`.
pub fn to_standard_error() -> Tell {
    Arc::new(|host, line| {
        // Ignores a closed standard error.
        let _ = writeln!(io::stderr().lock(), "{host}: {line}");
    })
}

/// Passes each line of `from` to `take`, to the end or the first error, which counts as an end.
pub(crate) fn each(from: impl Read, mut take: impl FnMut(String)) {
    let mut from = BufReader::new(from);
    let mut splitter = Splitter::default();
    loop {
        let piece = match from.fill_buf() {
            Ok([]) => break,
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let length = piece.len();
        splitter.add(piece, &mut take);
        from.consume(length);
    }
    splitter.end(take);
}

/// Assembles lines from pieces.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    begun: Vec<u8>,
}

impl Splitter {
    /// Adds bytes, and passes complete lines to `take`.
    pub(crate) fn add(&mut self, bytes: &[u8], mut take: impl FnMut(String)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, whole) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            for part in text.chunks(LONGEST) {
                if self.begun.len() + part.len() > LONGEST {
                    take(self.take_begun());
                }
                self.begun.extend_from_slice(part);
            }
            if whole {
                take(self.take_begun());
            }
        }
    }

    /// Passes a last line without an end.
    pub(crate) fn end(&mut self, mut take: impl FnMut(String)) {
        if !self.begun.is_empty() {
            take(self.take_begun());
        }
    }

    fn take_begun(&mut self) -> String {
        let line = std::mem::take(&mut self.begun);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        String::from_utf8_lossy(line).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        each(bytes, |line| lines.push(line));
        lines
    }

    #[test]
    fn lines_end_at_line_feeds_and_at_the_end() {
        assert_eq!(lines(b"a\n\nb\r\nc"), ["a", "", "b", "c"]);
        assert_eq!(lines(b""), [""; 0]);
    }

    #[test]
    fn lines_without_an_end_are_cut() {
        let cut = lines(&vec![b'x'; 3 * LONGEST + 5]);
        assert_eq!(cut.iter().map(String::len).max(), Some(LONGEST));
        assert_eq!(cut.iter().map(String::len).sum::<usize>(), 3 * LONGEST + 5);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200), cut in 1_usize..50) {
            let mut splitter = Splitter::default();
            let mut pieced = Vec::new();
            for piece in bytes.chunks(cut) {
                splitter.add(piece, |line| pieced.push(line));
            }
            splitter.end(|line| pieced.push(line));
            prop_assert_eq!(pieced, lines(&bytes));
        }
    }
}
