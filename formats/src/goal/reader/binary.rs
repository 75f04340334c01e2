//! The binary form of a schedule, as LogGOPSim and ATLAHS read it.
//!
//! A file has a magic number, the numbers of ranks, processors and interfaces, and the begin and end of each rank's schedule, counted from the end of the magic
//! number. A schedule has the number of operations, the operations without prerequisites, all operations, and the followers of each. All numbers are little endian
//! and packed. One rank's schedule is in memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use belljar_files::open_input;
use belljar_trace::Direction;

use super::schedule::{GoalOperation, GoalOperationKind, RankSchedule};
use crate::builder::{ImportError, failed};

/// The first bytes of a file.
const MAGIC: u64 = 4223;
/// Bytes of an operation.
const OPERATION: usize = 39;
/// Bytes of the table's row of a rank.
const ROW: u64 = 16;
/// Most ranks.
const MOST_RANKS: u32 = 1 << 20;
/// Most bytes of a rank's schedule.
const LONGEST: u64 = 1 << 32;
/// A wildcard peer or tag.
const ANY: u32 = u32::MAX;

/// True if a file with this beginning has this form.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    start.first_chunk() == Some(&MAGIC.to_le_bytes())
}

/// A file of this form.
pub(super) struct Binary {
    path: PathBuf,
    file: File,
    pub(super) ranks: u32,
    /// Bytes of schedules that are not read yet: schedules do not overlap.
    left: u64,
}

/// Opens the file at `path`; `None` if it has another form.
pub(super) fn open(path: &Path) -> Result<Option<Binary>, ImportError> {
    let mut file = open_input(path).map_err(failed(path))?;
    let mut start = Vec::new();
    let read = (&mut file).take(14).read_to_end(&mut start);
    read.map_err(failed(path))?;
    if !is_binary(&start) {
        return Ok(None);
    }
    let ranks = start.get(8..12).and_then(|it| it.try_into().ok());
    let ranks = ranks.map_or(0, u32::from_le_bytes);
    if start.len() < 14 || ranks > MOST_RANKS {
        return Err(ImportError::Damaged {
            path: path.to_owned(),
            offset: 8,
            reason: format!("it says that there are {ranks} ranks"),
        });
    }
    let left = file.metadata().map_err(failed(path))?.len();
    Ok(Some(Binary {
        left,
        path: path.to_owned(),
        file,
        ranks,
    }))
}

impl Binary {
    fn damaged(&self, offset: u64, reason: &str) -> ImportError {
        ImportError::Damaged {
            path: self.path.clone(),
            offset,
            reason: reason.to_owned(),
        }
    }

    fn bytes(&mut self, at: u64, count: u64) -> Result<Vec<u8>, ImportError> {
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(at));
        let read = read.and_then(|_| (&self.file).take(count).read_to_end(&mut bytes));
        read.map_err(failed(&self.path))?;
        match bytes.len() as u64 == count {
            true => Ok(bytes),
            false => Err(self.damaged(at + bytes.len() as u64, "the file ends early")),
        }
    }

    /// Reads the operations of a rank.
    pub(super) fn rank(&mut self, rank: u32) -> Result<RankSchedule, ImportError> {
        let row = 14 + u64::from(rank) * ROW;
        let bytes = self.bytes(row, ROW)?;
        let number = |at: usize| {
            bytes[at..]
                .first_chunk()
                .map_or(0, |it| u64::from_le_bytes(*it))
        };
        let (from, to) = (number(0), number(8));
        let length = to.checked_sub(from).filter(|length| *length <= LONGEST);
        let start = from.checked_add(8);
        let (Some(start), Some(length)) = (start, length) else {
            return Err(self.damaged(row, "the schedule of a rank ends before it begins"));
        };
        let Some(left) = self.left.checked_sub(length) else {
            return Err(self.damaged(row, "the schedules of ranks have more bytes than the file"));
        };
        self.left = left;
        let bytes = self.bytes(start, length)?;
        let (operations, followers) = Schedule {
            bytes: &bytes,
            ranks: self.ranks,
        }
        .read()
        .map_err(|(at, reason)| self.damaged(start + at as u64, reason))?;
        let mut rank = RankSchedule { operations };
        for (before, after, starts) in followers {
            let Some(operation) = rank.operations.get_mut(after as usize) else {
                return Err(self.damaged(start, "an operation waits that is not there"));
            };
            match starts {
                true => operation.after_start.push(before),
                false => operation.after.push(before),
            }
        }
        match rank.order() {
            Some(_) => Ok(rank),
            None => Err(self.damaged(start, "operations of the rank wait for themselves")),
        }
    }
}

/// The schedule of a rank.
struct Schedule<'b> {
    bytes: &'b [u8],
    ranks: u32,
}

/// The position and the reason of a fault.
type Wrong = (usize, &'static str);
/// An operation, its follower, and whether the follower only waits for its begin.
type Follower = (u32, u32, bool);

impl Schedule<'_> {
    fn word(&self, at: usize) -> Result<u32, Wrong> {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        let word = bytes.map(|bytes| u32::from_le_bytes(*bytes));
        word.ok_or((at, "the schedule of a rank ends early"))
    }

    fn read(&self) -> Result<(Vec<GoalOperation>, Vec<Follower>), Wrong> {
        let (count, roots) = (self.word(0)? as usize, self.word(4)? as usize);
        let nodes = roots.checked_mul(4).and_then(|roots| roots.checked_add(8));
        let table = nodes.and_then(|nodes| {
            let bytes = count.checked_mul(OPERATION)?;
            nodes.checked_add(bytes)
        });
        let (Some(nodes), Some(table)) = (nodes, table.filter(|it| *it <= self.bytes.len())) else {
            return Err((0, "a rank has more operations than its schedule has bytes"));
        };
        let mut operations = Vec::with_capacity(count);
        let mut followers = Vec::new();
        for number in 0..count {
            let at = nodes + number * OPERATION;
            operations.push(self.operation(at)?);
            for (field, starts) in [(23, false), (31, true)] {
                let many = self.word(at + field)? as usize;
                let first = self.word(at + field + 4)? as usize;
                if many > (self.bytes.len() - table) / 4 {
                    return Err((at + field, "more operations wait than there are"));
                }
                for index in first..first.saturating_add(many) {
                    let after = self.word(table + index.saturating_mul(4).min(self.bytes.len()))?;
                    followers.push((number as u32, after, starts));
                }
                if followers.len() > self.bytes.len() {
                    return Err((at + field, "more operations wait than there are"));
                }
            }
        }
        Ok((operations, followers))
    }

    fn operation(&self, at: usize) -> Result<GoalOperation, Wrong> {
        let bytes = &self.bytes[at..at + OPERATION];
        let (peer, tag) = (self.word(at + 5)?, self.word(at + 17)?);
        let size = bytes[9..].first_chunk();
        let size = size.map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let direction = match bytes[4] {
            3 => {
                return Ok(GoalOperation::new(
                    GoalOperationKind::Work(size),
                    bytes[21],
                    bytes[22],
                ));
            }
            1 => Direction::Send,
            2 => Direction::Receive,
            _ => return Err((at + 4, "an operation is neither work nor a message")),
        };
        let any = peer == ANY && direction == Direction::Receive;
        if !any && peer >= self.ranks {
            return Err((at + 5, "a message names a rank that is not there"));
        }
        if tag == ANY && direction == Direction::Send {
            return Err((at + 17, "a message that is sent has any tag"));
        }
        let kind = GoalOperationKind::Message {
            direction,
            peer: (!any).then_some(peer),
            tag: (tag != ANY).then_some(tag.cast_signed()),
            bytes: size,
        };
        Ok(GoalOperation::new(kind, bytes[21], bytes[22]))
    }
}
