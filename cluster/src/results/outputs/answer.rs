//! A node's answer to a request for files; `images/guest/belljar-collect.c` has the format.
//!
//! It is untrusted: lines have a maximum length, and invalid answers are an error. An answer's parts do not
//! depend on its division into pieces. Read by the collection, to detect the end, and by the keeper of the
//! files.

/// Longest line of an answer: a name of 4,096 bytes, each encoded as three, and a prefix.
const LONGEST_LINE: usize = 3 * 4096 + 64;

/// A piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AnswerPiece<'a> {
    /// A file follows.
    File {
        /// Its path in the guest; it may contain any characters.
        name: String,
        /// Its length in bytes.
        size: u64,
        /// Its permissions.
        mode: u32,
    },
    /// The next bytes of that file.
    Bytes(&'a [u8]),
    /// A file is left out.
    Left {
        /// Its path in the guest, with any characters.
        name: String,
        /// Its length; `None` if it is no plain file or cannot be read.
        size: Option<u64>,
    },
    /// The end of the answer.
    Done,
}

/// Errors of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// An invalid line.
    #[error("its answer has an invalid line: {0:?}")]
    Line(String),
    /// A line over the limit.
    #[error("its answer has a line of more than {LONGEST_LINE} bytes")]
    Long,
}

/// The received part of an answer. Its parts do not depend on its division into pieces.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// True after the word at the beginning of an answer. Earlier lines have other purposes.
    begun: bool,
    done: bool,
    line: Vec<u8>,
    /// Remaining bytes of the current file.
    left: u64,
}

impl Answer {
    /// True if it is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Parses the next bytes and passes the parts to `take`, until that fails.
    ///
    /// # Errors
    /// [`AnswerError`], or the error of `take`.
    pub(crate) fn take<E: From<AnswerError>>(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(AnswerPiece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() && !self.done {
            if self.left > 0 {
                let count =
                    usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
                let (own, rest) = bytes.split_at(count);
                self.left -= count as u64;
                bytes = rest;
                take(AnswerPiece::Bytes(own))?;
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (own, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + own.len() > LONGEST_LINE {
                return Err(AnswerError::Long.into());
            }
            self.line.extend_from_slice(own);
            bytes = rest;
            if end.is_some() {
                bytes = &bytes[1..];
                let line = std::mem::take(&mut self.line);
                if let Some(part) = self.read(&String::from_utf8_lossy(&line))? {
                    take(part)?;
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, line: &str) -> Result<Option<AnswerPiece<'static>>, AnswerError> {
        if !self.begun {
            self.begun = line == "files";
            return Ok(None);
        }
        let words: Vec<&str> = line.split(' ').collect();
        let part = match words[..] {
            ["looking"] => return Ok(None),
            ["done"] => {
                self.done = true;
                Some(AnswerPiece::Done)
            }
            ["file", mode, size, name] => {
                let mode = u32::from_str_radix(mode, 8).ok();
                size.parse().ok().zip(mode).map(|(size, mode)| {
                    self.left = size;
                    let name = decoded(name);
                    AnswerPiece::File { name, size, mode }
                })
            }
            ["left", "-", name] => Some(AnswerPiece::Left {
                name: decoded(name),
                size: None,
            }),
            ["left", size, name] => size.parse().ok().map(|size| AnswerPiece::Left {
                name: decoded(name),
                size: Some(size),
            }),
            _ => None,
        };
        let shown = || line.chars().take(80).collect();
        part.map(Some).ok_or_else(|| AnswerError::Line(shown()))
    }
}

/// Decodes a name with "%XX" for some bytes; returns it unchanged if the result is no text.
fn decoded(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = (first == b'%').then(|| after.get(..2)).flatten();
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match hex {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of an answer, in words, if it arrives in pieces of `size` bytes.
    fn read(text: &[u8], size: usize) -> Result<Vec<String>, AnswerError> {
        let (mut answer, mut said, mut data) = (Answer::default(), Vec::new(), Vec::new());
        for piece in text.chunks(size) {
            answer.take::<AnswerError>(piece, |part| {
                match part {
                    AnswerPiece::Bytes(bytes) => data.extend_from_slice(bytes),
                    other => said.push(format!("{other:?}")),
                }
                Ok(())
            })?;
        }
        said.push(String::from_utf8_lossy(&data).into_owned());
        said.push(format!("{}", answer.is_done()));
        Ok(said)
    }

    const TEXT: &[u8] = b"ready\nexit 0\nfiles\nfile 644 3 a%20b\na\ncfile 755 0 e\nlooking\nleft - out/l\nleft 99 big\ndone\nfile 644 1 x\ny";

    #[test]
    fn an_answer_is_the_same_in_pieces_of_any_size() {
        let whole = read(TEXT, TEXT.len()).unwrap();
        assert_eq!(whole.len(), 7, "{whole:?}");
        assert!(whole[0].contains("\"a b\""), "{whole:?}");
        assert_eq!(whole[5..], ["a\nc".to_owned(), "true".to_owned()]);
        for size in 1..TEXT.len() {
            assert_eq!(read(TEXT, size).unwrap(), whole, "{size}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for wrong in [
            "",
            "file 644 x y",
            "file 9 1 y",
            "left y",
            "file 644 1",
            "done now",
        ] {
            let text = format!("files\n{wrong}\n");
            let error = read(text.as_bytes(), 5).unwrap_err();
            assert_eq!(error, AnswerError::Line(wrong.to_owned()));
        }
        let long = ["files\n", &"x".repeat(LONGEST_LINE + 1)].concat();
        assert_eq!(read(long.as_bytes(), 1000), Err(AnswerError::Long));
    }

    #[test]
    fn names_are_read_as_far_as_they_are_text() {
        assert_eq!(decoded("a%2Fb%25%zz%4"), "a/b%%zz%4");
        assert_eq!(decoded("%ff"), "%ff");
    }
}
