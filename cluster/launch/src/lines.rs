//! Lines of an agent's output.
//!
//! Whatever an agent writes becomes lines of at most [`LONGEST`](lines::LONGEST) bytes; longer ones come in pieces. Called
//! by the threads that read from agents: those of `child` read pipes, that of `ssh` pieces of a channel.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;

/// Longer lines are cut into pieces of this many bytes.
pub(crate) const LONGEST: usize = 64 << 10;

/// Lines that may wait for the caller; then the agent has to.
pub(crate) const WAITING: usize = 1024;

/// Is given each line that agents write for people: the host's name, and the line.
pub type Tell = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Passes lines on to this process's standard error, as `host: line`.
pub fn to_standard_error() -> Tell {
    Arc::new(|host, line| {
        // Nobody is left to be told where standard error is closed.
        let _ = writeln!(io::stderr().lock(), "{host}: {line}");
    })
}

/// Gives each line of `from` to `take`, to the end or the first error, which is an end too.
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

/// Makes lines of pieces.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    begun: Vec<u8>,
}

impl Splitter {
    /// Adds bytes; gives what became whole to `take`.
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

    /// Gives what has no end of line.
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
