//! The text form of a schedule.
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
//! The grammar follows LogGOPSim's `txt2bin`. An operation may have a label; `tag`, `cpu` and `nic` follow in any order. Comments are between `/*` and `*/`, and from
//! `//` or `#` to the end of a line. Read line by line; a rank's operations are in memory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use belljar_files::open_input;
use belljar_trace::Direction;

use super::schedule::{GoalOperation, GoalOperationKind, RankSchedule};
use crate::builder::{ImportError, failed};

/// Most ranks.
const MOST_RANKS: u32 = 1 << 20;
/// Most bytes of a line.
const LONGEST_LINE: u64 = 1 << 16;
/// Most operations of a rank.
const MOST_OPERATIONS: usize = 1 << 26;

/// True if a file with this beginning is a schedule: its first word after comments is `num_ranks`.
pub(crate) fn is_text(start: &str) -> bool {
    let mut reading = GoalParser::new(Path::new(""));
    let kept = start.lines().map(|line| reading.without_comments(line));
    let first = kept.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    first.take(1).any(|word| word == "num_ranks")
}

/// The parser of a schedule in text.
struct GoalParser<'p> {
    path: &'p Path,
    line: u64,
    ranks: Option<u32>,
    /// The rank whose block is open, with the numbers of its labels.
    open: Option<(u32, RankSchedule, BTreeMap<String, u32>)>,
    seen: Vec<bool>,
    /// The line of the beginning of an unfinished comment.
    comment: Option<u64>,
}

/// Passes each rank's operations to `to`, with its number and the number of ranks. Returns the number of ranks.
pub(super) fn read(
    path: &Path,
    mut to: impl FnMut((u32, u32), &RankSchedule) -> Result<(), ImportError>,
) -> Result<u32, ImportError> {
    let mut file = BufReader::new(open_input(path).map_err(failed(path))?);
    let mut reading = GoalParser::new(path);
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
        for (rank, operations) in reading.line(&text)? {
            let ranks = reading.ranks.unwrap_or(0);
            to((rank, ranks), &operations)?;
        }
    }
    if let Some(line) = reading.comment {
        reading.line = line;
        return Err(reading.wrong("the comment that begins here has no end"));
    }
    let Some(ranks) = reading.ranks else {
        return Err(reading.wrong("there is no num_ranks"));
    };
    if reading.open.is_some() {
        return Err(reading.wrong("the block of a rank has no end"));
    }
    // Ranks without a block do nothing.
    for rank in (0u32..).zip(&reading.seen).filter(|(_, seen)| !**seen) {
        to((rank.0, ranks), &RankSchedule::default())?;
    }
    Ok(ranks)
}

impl<'p> GoalParser<'p> {
    fn new(path: &'p Path) -> Self {
        Self {
            path,
            line: 0,
            ranks: None,
            open: None,
            seen: Vec::new(),
            comment: None,
        }
    }

    fn wrong(&self, reason: &str) -> ImportError {
        ImportError::Line {
            path: self.path.to_owned(),
            line: self.line,
            reason: reason.to_owned(),
        }
    }

    /// Reads a line. Returns the ranks whose blocks it ends.
    fn line(&mut self, text: &str) -> Result<Vec<(u32, RankSchedule)>, ImportError> {
        let text = self.without_comments(text);
        let spaced = [":", "{", "}"].iter().fold(text, |text, mark| {
            let apart = format!(" {mark} ");
            text.replace(mark, &apart)
        });
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut words = words.as_slice();
        let mut ended = Vec::new();
        while !words.is_empty() {
            words = match (words, self.open.is_some()) {
                (["num_ranks", count, rest @ ..], false) => {
                    self.count_ranks(count)?;
                    rest
                }
                (["rank", rank, "{", rest @ ..], false) => {
                    self.begin_rank(rank)?;
                    rest
                }
                (["}", rest @ ..], true) => {
                    ended.extend(self.end()?);
                    rest
                }
                (words, true) => {
                    let end = words.iter().position(|word| *word == "}");
                    let (statement, rest) = words.split_at(end.unwrap_or(words.len()));
                    self.statement(statement)?;
                    rest
                }
                _ => {
                    return Err(
                        self.wrong("here num_ranks N should stand, or a rank's block: rank N {")
                    );
                }
            };
        }
        Ok(ended)
    }

    /// Replaces comments in a line by blanks: from `//` or `#` to its end, and from `/*` to `*/`, which may be on a later line.
    fn without_comments(&mut self, text: &str) -> String {
        let mut kept = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            if self.comment.is_some() {
                let Some(end) = rest.find("*/") else {
                    break;
                };
                self.comment = None;
                kept.push(' ');
                rest = &rest[end + 2..];
                continue;
            }
            let marks = ["//", "#", "/*"].map(|mark| rest.find(mark));
            let first = marks.into_iter().flatten().min().unwrap_or(rest.len());
            kept.push_str(&rest[..first]);
            match &rest[first..] {
                opened if opened.starts_with("/*") => {
                    self.comment = Some(self.line);
                    rest = &opened[2..];
                }
                _ => break,
            }
        }
        kept
    }

    fn count_ranks(&mut self, count: &str) -> Result<(), ImportError> {
        if self.ranks.is_some() {
            return Err(self.wrong("num_ranks stands twice"));
        }
        let count = self.number(count, "a number of ranks")?;
        let count = u32::try_from(count).ok().filter(|it| *it <= MOST_RANKS);
        let count = count.ok_or_else(|| self.wrong("there are too many ranks"))?;
        self.ranks = Some(count);
        self.seen = vec![false; count as usize];
        Ok(())
    }

    fn begin_rank(&mut self, rank: &str) -> Result<(), ImportError> {
        let rank = self.number(rank, "a rank")?;
        if self.ranks.is_none() {
            return Err(self.wrong("num_ranks must stand before the first rank"));
        }
        let place = usize::try_from(rank).ok();
        match place.and_then(|place| self.seen.get_mut(place)) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => return Err(self.wrong("the rank has a block already")),
            None => return Err(self.wrong("num_ranks says that there is no such rank")),
        }
        self.open = Some((rank as u32, RankSchedule::default(), BTreeMap::new()));
        Ok(())
    }

    fn end(&mut self) -> Result<Option<(u32, RankSchedule)>, ImportError> {
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

    fn operation(&self, words: &[&str]) -> Result<GoalOperation, ImportError> {
        // Bytes may be separated from their unit.
        let (words, unit) = match words {
            [name, bytes, "b", rest @ ..] => ([&[*name, *bytes], rest].concat(), true),
            words => (words.to_vec(), false),
        };
        let (kind, options) = match words.as_slice() {
            ["calc", time, rest @ ..] if !unit => {
                let options = self.options(rest, &["cpu"])?;
                (
                    GoalOperationKind::Work(self.number(time, "nanoseconds")?),
                    options,
                )
            }
            ["send", bytes, "to", peer, rest @ ..] => {
                let options = self.options(rest, &["tag", "cpu", "nic"])?;
                let message = self.message(Direction::Send, bytes, peer, options[0])?;
                (message, options)
            }
            ["recv", bytes, "from", peer, rest @ ..] => {
                let options = self.options(rest, &["tag", "cpu", "nic"])?;
                let message = self.message(Direction::Receive, bytes, peer, options[0])?;
                (message, options)
            }
            _ => {
                return Err(self.wrong(
                    "this is neither calc, send ... to, recv ... from, requires nor irequires",
                ));
            }
        };
        let place = [(options[1], "a processor"), (options[2], "an interface")];
        let [processor, interface] = place.map(|(word, what)| self.small(word, what));
        Ok(GoalOperation::new(kind, processor?, interface?))
    }

    /// Returns the values of `tag`, `cpu` and `nic`, as far as an operation has them.
    fn options<'w>(
        &self,
        words: &[&'w str],
        taken: &[&str],
    ) -> Result<[Option<&'w str>; 3], ImportError> {
        let mut values = [None; 3];
        for pair in words.chunks(2) {
            let name = pair[0];
            let known = ["tag", "cpu", "nic"].iter().position(|it| *it == name);
            let Some(at) = known.filter(|_| taken.contains(&name)) else {
                let reason = format!(
                    "{name:?} is no option of this operation ({})",
                    taken.join(", ")
                );
                return Err(self.wrong(&reason));
            };
            let value = pair.get(1);
            let value = value.ok_or_else(|| self.wrong(&format!("{name} has no value")))?;
            if values[at].replace(*value).is_some() {
                return Err(self.wrong(&format!("{name} stands twice")));
            }
        }
        Ok(values)
    }

    /// Returns the number of a processor or an interface; the first if missing.
    fn small(&self, word: Option<&str>, what: &str) -> Result<u8, ImportError> {
        let Some(word) = word else {
            return Ok(0);
        };
        let number = u8::try_from(self.number(word, what)?);
        number.map_err(|_| self.wrong(&format!("{word} is no number of {what} (0 to 255)")))
    }

    fn message(
        &self,
        direction: Direction,
        bytes: &str,
        peer: &str,
        tag: Option<&str>,
    ) -> Result<GoalOperationKind, ImportError> {
        let bytes = bytes.strip_suffix('b').unwrap_or(bytes);
        let receives = direction == Direction::Receive;
        let peer = match peer {
            "ANY_SOURCE" | "-1" if receives => None,
            peer => {
                let number = self.number(peer, "a rank")?;
                let known = number < u64::from(self.ranks.unwrap_or(0));
                let known = known.then_some(number as u32);
                Some(known.ok_or_else(|| self.wrong("num_ranks says that there is no such rank"))?)
            }
        };
        let tag = match tag {
            None => Some(0),
            Some("ANY_TAG" | "-1") if receives => None,
            Some(word) => {
                let number = u32::try_from(self.number(word, "a tag")?);
                let number = number.ok().filter(|it| *it < u32::MAX);
                let number = number.ok_or_else(|| self.wrong(&format!("{word} is no tag")))?;
                Some(number.cast_signed())
            }
        };
        Ok(GoalOperationKind::Message {
            direction,
            peer,
            tag,
            bytes: self.number(bytes, "bytes")?,
        })
    }

    fn number(&self, word: &str, what: &str) -> Result<u64, ImportError> {
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        let number = word.parse().ok().filter(|_| digits);
        number.ok_or_else(|| self.wrong(&format!("{word:?} stands where {what} should")))
    }
}

#[cfg(test)]
mod tests;
