//! Prepared jobs: a program, the residuals of its calls, and the properties of its hosts.
//!
//! Kept in a file, so that playing it needs neither its trace nor its image. Such a file is untrusted: its contents are checked when it is read. Created by
//! `belljar run` for scenarios with background traffic, read by runs.

use std::hash::Hasher;
use std::io::Read;

use belljar_networks::MOST_BYTES;
use belljar_program::{Program, ProgramError, ProgramState};
use belljar_sim::{CodecError, Frequency, decode, encode};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::calibration::Calibration;
use crate::costs::{Costs, CostsError};
use crate::replay::largest;

/// The first bytes of such files; the last byte is the version.
const MAGIC: [u8; 8] = *b"BELLJOB\x06";

/// Length of the header: the magic number, hosts, ranks, and the checksum (XXH3-64) of these numbers and the job.
const HEAD: usize = 24;
/// Offset of the checksum.
const SUM: usize = 16;

/// Most bytes of a file.
pub const MOST_FILE_BYTES: u64 = 1 << 30;

/// Most ranks of a job.
const MOST_RANKS: usize = 1 << 20;

/// A traced job that is ready to be played.
#[derive(Clone, Debug)]
pub struct PreparedJob {
    pub(crate) program: Program,
    pub(crate) calibration: Calibration,
    pub(crate) costs: Costs,
    pub(crate) clocks: Vec<Frequency>,
    /// The number of hosts that it needs.
    hosts: u32,
}

/// An error in a prepared job's bytes.
#[derive(Debug, thiserror::Error)]
pub enum PreparedError {
    /// They are not a prepared job.
    #[error("this is no job that was prepared to be played, or one of another version of Belljar")]
    Other,
    /// They cannot be decoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The program is invalid.
    #[error("its program is damaged: {0}")]
    Program(#[from] ProgramError),
    /// Hosts' costs are invalid.
    #[error("its costs are damaged: {0}")]
    Costs(#[from] CostsError),
    /// The checksum differs.
    #[error("it is damaged: its checksum is another one; remove the file")]
    Sum,
    /// Its parts do not fit together.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// It has no rank.
    #[error("the job has no ranks: its trace has no calls")]
    Empty,
}

/// The contents of the file after its head.
#[derive(Serialize, Deserialize)]
struct File {
    program: ProgramState,
    residuals: Vec<Vec<i64>>,
    costs: Costs,
    clocks: Vec<Frequency>,
}

impl PreparedJob {
    /// Creates a job from a program with its calibration, on hosts whose processors have these clocks, by process. Processes that were on one node are on one
    /// host.
    ///
    /// # Errors
    /// Returns an error if it has no processes.
    pub fn new(
        mut program: Program,
        calibration: Calibration,
        costs: Costs,
        clocks: Vec<Frequency>,
    ) -> Result<Self, PreparedError> {
        let mut nodes: Vec<u32> = program.processes.iter().map(|it| it.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for process in &mut program.processes {
            process.node = nodes.partition_point(|node| *node < process.node) as u32;
            process.job = 0;
        }
        let first = program.threads.iter().map(|it| it.start).min();
        for thread in &mut program.threads {
            thread.start -= first.unwrap_or(0);
        }
        program.unfinished.clear();
        let carried = calibration.carried(&program).into_owned();
        let job = Self {
            hosts: nodes.len() as u32,
            program,
            calibration: Calibration::of(carried),
            costs,
            clocks,
        };
        job.check()?;
        Ok(job)
    }

    /// Returns the number of hosts that it needs.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Returns the number of its ranks.
    pub fn ranks(&self) -> u32 {
        self.program.processes.len() as u32
    }

    /// Returns the picoseconds from its first call to its last one's return in the trace.
    pub fn traced_ps(&self) -> u64 {
        let ends = self.program.threads.iter();
        let ends = ends.filter_map(|thread| thread.traced().last());
        ends.map(|(_, exit)| exit).max().unwrap_or(0)
    }

    /// Returns the bytes of its file.
    ///
    /// # Errors
    /// Returns an error if it is larger than can be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PreparedError> {
        let file = File {
            program: self.program.save(),
            residuals: self.calibration.residuals.clone(),
            costs: self.costs,
            clocks: self.clocks.clone(),
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.hosts.to_le_bytes());
        bytes.extend(self.ranks().to_le_bytes());
        let body = encode(&file)?;
        belljar_sim::check::<File>(&body)?;
        bytes.extend(sum(&bytes, &body).to_le_bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    /// Returns the numbers of hosts and ranks of a file's job, from its first bytes.
    ///
    /// # Errors
    /// Returns an error if it is another file.
    pub fn size_of(mut file: impl Read) -> Result<(u32, u32), PreparedError> {
        let mut head = [0; HEAD];
        file.read_exact(&mut head)
            .map_err(|_| PreparedError::Other)?;
        size(&head)
    }

    /// Restores the job from a file's bytes.
    ///
    /// # Errors
    /// Returns an error if they are of another file, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PreparedError> {
        let (head, body) = bytes
            .split_first_chunk::<HEAD>()
            .ok_or(PreparedError::Other)?;
        let (hosts, ranks) = size(head)?;
        let (numbers, kept) = head.split_at(SUM);
        if kept != sum(numbers, body).to_le_bytes() {
            return Err(PreparedError::Sum);
        }
        let file: File = decode(body)?;
        file.costs.check()?;
        let job = Self {
            program: Program::restore(file.program)?,
            calibration: Calibration::of(file.residuals),
            costs: file.costs,
            clocks: file.clocks,
            hosts,
        };
        job.check()?;
        match job.ranks() == ranks {
            true => Ok(job),
            false => Err(PreparedError::Damaged("it has another number of ranks")),
        }
    }

    fn check(&self) -> Result<(), PreparedError> {
        let program = &self.program;
        if program.processes.is_empty() {
            return Err(PreparedError::Empty);
        }
        let damaged = |what| Err(PreparedError::Damaged(what));
        if self.clocks.len() != program.processes.len() {
            return damaged("it has another number of clocks than of ranks");
        }
        if program.processes.len() > MOST_RANKS {
            return damaged("it has too many ranks");
        }
        let node = |process: &belljar_program::Process| process.node < self.hosts;
        if self.hosts as usize > program.processes.len() || !program.processes.iter().all(node) {
            return damaged("a rank is on a host that is not there");
        }
        let one = |process: &belljar_program::Process| process.job == 0;
        if !program.processes.iter().all(one) {
            return damaged("it is of several jobs");
        }
        let residuals = self.calibration.residuals.iter();
        let mut fits = program.threads.iter().zip(residuals);
        let same = program.threads.len() == self.calibration.residuals.len();
        if !same || !fits.all(|(thread, own)| thread.calls.len() == own.len()) {
            return damaged("calls and what they took do not fit together");
        }
        match largest(program).is_some_and(|bytes| bytes > MOST_BYTES) {
            true => damaged("a message is larger than any that there is"),
            false => Ok(()),
        }
    }
}

/// Returns the checksum of a file's numbers and its job.
fn sum(numbers: &[u8], body: &[u8]) -> u64 {
    let mut hasher = XxHash3_64::new();
    hasher.write(numbers);
    hasher.write(body);
    hasher.finish()
}

fn size(head: &[u8; HEAD]) -> Result<(u32, u32), PreparedError> {
    let (magic, numbers) = head.split_at(MAGIC.len());
    let number = |at: usize| {
        let bytes = numbers.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    match (number(0), number(4)) {
        (Some(hosts), Some(ranks)) if magic == MAGIC => Ok((hosts, ranks)),
        _ => Err(PreparedError::Other),
    }
}
