//! The text of a schedule.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//!   l1: calc 100
//!   l2: send 8b to 1 tag 7
//!   l2 requires l1
//! }
//! ```
//!
//! Labels may be anything, and operations that nobody names need none. Read line by line; a rank's operations are in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use belljar_trace::Direction;

use super::schedule::{Kind, Operation, Rank};
use crate::{ImportError, failed};

/// Ranks that there may be.
const MOST_RANKS: u32 = 1 << 20;
/// Bytes of a line.
const LONGEST_LINE: u64 = 1 << 16;
/// Operations of a rank.
const MOST_OPERATIONS: usize = 1 << 26;

/// What is being read.
struct Reading<'p> {
    path: &'p Path,
    line: u64,
    ranks: Option<u32>,
    /// The rank whose block is open, with the numbers of its labels.
    open: Option<(u32, Rank, BTreeMap<String, u32>)>,
    seen: Vec<bool>,
}

/// Gives each rank's operations to `to`, with its number and how many ranks there are. Returns how many.
pub(super) fn read(
    path: &Path,
    mut to: impl FnMut((u32, u32), &Rank) -> Result<(), ImportError>,
) -> Result<u32, ImportError> {
    let mut file = BufReader::new(File::open(path).map_err(failed(path))?);
    let mut reading = Reading {
        path,
        line: 0,
        ranks: None,
        open: None,
        seen: Vec::new(),
    };
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let mut limited = (&mut file).take(LONGEST_LINE);
        let read = limited.read_until(b'\n', &mut bytes);
        let read = read.map_err(failed(path))? as u64;
        if read == 0 {
            break;
        }
        reading.line += 1;
        if read == LONGEST_LINE && bytes.last() != Some(&b'\n') {
            return Err(reading.wrong("the line has more than 65536 bytes"));
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((rank, operations)) = reading.line(&text)? {
            let ranks = reading.ranks.unwrap_or(0);
            to((rank, ranks), &operations)?;
        }
    }
    let Some(ranks) = reading.ranks else {
        return Err(reading.wrong("there is no num_ranks"));
    };
    if reading.open.is_some() {
        return Err(reading.wrong("the block of a rank has no end"));
    }
    // Ranks without a block do nothing.
    for rank in (0u32..).zip(&reading.seen).filter(|(_, seen)| !**seen) {
        to((rank.0, ranks), &Rank::default())?;
    }
    Ok(ranks)
}

impl Reading<'_> {
    fn wrong(&self, reason: &str) -> ImportError {
        ImportError::Line {
            path: self.path.to_owned(),
            line: self.line,
            reason: reason.to_owned(),
        }
    }

    /// Reads a line. Returns the rank whose block it ends.
    fn line(&mut self, text: &str) -> Result<Option<(u32, Rank)>, ImportError> {
        let text = text.split("//").next().unwrap_or_default();
        let text = text.split('#').next().unwrap_or_default();
        let spaced = text.replace('{', " { ").replace('}', " } ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        match (words.as_slice(), self.open.is_some()) {
            ([], _) => Ok(None),
            (["num_ranks", count], false) => {
                let count = self.number(count, "a number of ranks")?;
                let count = u32::try_from(count).ok().filter(|it| *it <= MOST_RANKS);
                let count = count.ok_or_else(|| self.wrong("there are too many ranks"))?;
                self.ranks = Some(count);
                self.seen = vec![false; count as usize];
                Ok(None)
            }
            (["rank", rank, "{"], false) => {
                let rank = self.number(rank, "a rank")?;
                let place = usize::try_from(rank).ok();
                let seen = place.and_then(|place| self.seen.get_mut(place));
                match seen {
                    Some(seen) if !*seen => *seen = true,
                    Some(_) => return Err(self.wrong("the rank has a block already")),
                    None => return Err(self.wrong("num_ranks says that there is no such rank")),
                }
                self.open = Some((rank as u32, Rank::default(), BTreeMap::new()));
                Ok(None)
            }
            (["}"], true) => Ok(self.end()?),
            (words, true) => {
                self.statement(words)?;
                Ok(None)
            }
            _ => Err(self.wrong("here a rank's block begins: rank N {")),
        }
    }

    fn end(&mut self) -> Result<Option<(u32, Rank)>, ImportError> {
        let Some((rank, operations, _)) = self.open.take() else {
            return Ok(None);
        };
        match operations.order() {
            Some(_) => Ok(Some((rank, operations))),
            None => Err(self.wrong("operations of the rank wait for themselves")),
        }
    }

    fn statement(&mut self, words: &[&str]) -> Result<(), ImportError> {
        if let [after, how @ ("requires" | "irequires"), before] = words {
            let (after, before) = (self.label(after)?, self.label(before)?);
            let Some((_, rank, _)) = &mut self.open else {
                return Ok(());
            };
            let operation = &mut rank.operations[after as usize];
            match *how {
                "requires" => operation.after.push(before),
                _ => operation.after_start.push(before),
            }
            return Ok(());
        }
        let (label, words) = match words {
            [first, rest @ ..] if first.ends_with(':') => (Some(first.trim_end_matches(':')), rest),
            [first, ":", rest @ ..] => (Some(*first), rest),
            words => (None, words),
        };
        let operation = self.operation(words)?;
        let too_many = self.wrong("the rank has more operations than are read");
        let again = self.wrong("the label is used already");
        let Some((_, rank, labels)) = &mut self.open else {
            return Ok(());
        };
        if rank.operations.len() >= MOST_OPERATIONS {
            return Err(too_many);
        }
        let number = rank.operations.len() as u32;
        rank.operations.push(operation);
        let earlier = label.and_then(|label| labels.insert(label.to_owned(), number));
        earlier.map_or(Ok(()), |_| Err(again))
    }

    fn label(&self, label: &str) -> Result<u32, ImportError> {
        let labels = self.open.as_ref().map(|(_, _, labels)| labels);
        let found = labels.and_then(|labels| labels.get(label));
        let missing = || self.wrong(&format!("there is no operation {label:?} before this line"));
        found.copied().ok_or_else(missing)
    }

    fn operation(&self, words: &[&str]) -> Result<Operation, ImportError> {
        let (kind, rest) = match words {
            ["calc", time, rest @ ..] => (Kind::Work(self.number(time, "nanoseconds")?), rest),
            ["send", bytes, "to", peer, rest @ ..] => {
                (self.message(Direction::Send, bytes, peer, rest)?, rest)
            }
            ["recv", bytes, "from", peer, rest @ ..] => {
                (self.message(Direction::Receive, bytes, peer, rest)?, rest)
            }
            _ => {
                return Err(self.wrong(
                    "this is neither calc, send ... to, recv ... from, requires nor irequires",
                ));
            }
        };
        let processor = match self.option(rest, "cpu") {
            Some(word) => self.number(word, "a processor")?,
            None => 0,
        };
        Ok(Operation::new(kind, processor.min(255) as u8))
    }

    fn message(
        &self,
        direction: Direction,
        bytes: &str,
        peer: &str,
        rest: &[&str],
    ) -> Result<Kind, ImportError> {
        let bytes = bytes.strip_suffix('b').unwrap_or(bytes);
        let peer = match peer {
            "ANY_SOURCE" | "-1" if direction == Direction::Receive => None,
            peer => {
                let number = self.number(peer, "a rank")?;
                let known = number < u64::from(self.ranks.unwrap_or(0));
                let known = known.then_some(number as u32);
                Some(known.ok_or_else(|| self.wrong("num_ranks says that there is no such rank"))?)
            }
        };
        let tag = match self.option(rest, "tag") {
            None => Some(0),
            Some("ANY_TAG" | "-1") => None,
            Some(word) => Some((self.number(word, "a tag")? as u32).cast_signed()),
        };
        Ok(Kind::Message {
            direction,
            peer,
            tag,
            bytes: self.number(bytes, "bytes")?,
        })
    }

    /// What stands after a word.
    fn option<'w>(&self, words: &[&'w str], name: &str) -> Option<&'w str> {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    }

    fn number(&self, word: &str, what: &str) -> Result<u64, ImportError> {
        let number = word.parse();
        number.map_err(|_| self.wrong(&format!("{word:?} stands where {what} should")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(text: &str) -> Result<Vec<(u32, Rank)>, ImportError> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("it is written");
        let mut ranks = Vec::new();
        read(file.path(), |(rank, _), operations| {
            ranks.push((rank, operations.clone()));
            Ok(())
        })?;
        Ok(ranks)
    }

    #[test]
    fn schedules_are_read() {
        let text = "# two ranks\nnum_ranks 3\nrank 1 {\nl1: calc 100\nl2: send 8b to 0 tag 7 cpu 2 nic 0\nl2 requires l1\nrecv 5b from 2\n}\nrank 0 { \n }\n";
        let ranks = ranks(text).expect("it is sound");
        let numbers: Vec<u32> = ranks.iter().map(|(rank, _)| *rank).collect();
        assert_eq!(numbers, [1, 0, 2]);
        let operations = &ranks[0].1.operations;
        assert_eq!(operations[0].kind, Kind::Work(100));
        let sent = Kind::Message {
            direction: Direction::Send,
            peer: Some(0),
            tag: Some(7),
            bytes: 8,
        };
        assert_eq!((operations[1].kind, operations[1].processor), (sent, 2));
        assert_eq!(operations[1].after, [0]);
        assert_eq!(operations.len(), 3);
    }

    #[test]
    fn errors_name_lines() {
        for (text, line) in [
            ("", 0),
            ("num_ranks x", 1),
            ("num_ranks 99999999999", 1),
            ("num_ranks 1\nrank 1 {\n}", 2),
            ("num_ranks 1\nrank 0 {\nl1: walk 5\n}", 3),
            ("num_ranks 1\nrank 0 {\nl1: send 5b to 4\n}", 3),
            ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1 requires l1\n}", 5),
            ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1 requires l2\n}", 4),
            ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1: calc 1\n}", 4),
            ("num_ranks 1\nrank 0 {\n", 2),
        ] {
            match ranks(text) {
                Err(ImportError::Line { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
