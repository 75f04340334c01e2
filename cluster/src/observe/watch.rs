//! Looking at a node's state at given instructions while it runs.
//!
//! Observation changes nothing in the node. Equal lines mean equal states of processor and memory, by
//! hashes. Used by runs with `--state-hash`, and by `belljar bisect`, which reads the files of two runs.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use belljar_cpu::StateItem;
use belljar_sim::Time;
use belljar_vmm::Node;
use serde::{Deserialize, Serialize};

/// Folder of a run directory with the hashes of nodes' states.
pub const STATE_FOLDER: &str = "state";
/// First line of a file of hashes.
const TITLE: &str = "# belljar state hashes 1";
/// Its columns.
const COLUMNS: &str = "# instructions cycles rip processor memory devices";
/// Longest instruction.
const CODE_BYTES: usize = 15;
/// Index of CS.
const CS: usize = 1;

/// The purpose of periodic samples of a node.
#[derive(Debug)]
pub enum Watch {
    /// Writes hashes of its state.
    Log(StateLog),
    /// Keeps its state for comparison.
    Probe(Probe),
}

/// A file of hashes: a line at each interval of instructions, and one for the end.
#[derive(Debug)]
pub struct StateLog {
    every: u64,
    next: u64,
    lines: Vec<u8>,
    file: BufWriter<File>,
}

/// Instructions at which a node's state is sampled, and the samples.
#[derive(Debug, Default)]
pub struct Probe {
    /// Remaining instructions, ascending.
    pub points: VecDeque<u64>,
    /// Guest-physical addresses of the pages to sample.
    pub pages: Vec<u64>,
    /// Samples so far.
    pub samples: Vec<NodeSample>,
}

/// A node's state at one instruction boundary.
#[derive(Clone, Debug)]
pub struct NodeSample {
    /// Instructions retired.
    pub instructions: u64,
    /// The node's clock.
    pub time: Time,
    /// Registers.
    pub processor: Vec<StateItem>,
    /// Every page of RAM with its hash.
    pub memory: Vec<(u64, u64)>,
    /// The requested pages.
    pub pages: BTreeMap<u64, Vec<u8>>,
    /// Linear address of the next instruction.
    pub address: u64,
    /// Bits of its code segment: 16, 32 or 64.
    pub bits: u32,
    /// The bytes there; fewer than the longest instruction at a page's end.
    pub code: Vec<u8>,
}

/// One line of a file of hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateLine {
    /// Instructions retired.
    pub instructions: u64,
    /// The node's clock in cycles.
    pub cycles: u64,
    /// Hashes of processor and memory, which are equal for equal states.
    pub hashes: (String, String),
}

impl Watch {
    /// The number of instructions at the next sample.
    pub fn next(&self) -> Option<u64> {
        match self {
            Self::Log(log) => Some(log.next),
            Self::Probe(probe) => probe.points.front().copied(),
        }
    }

    /// Samples `node`, which has reached the point.
    pub fn look(&mut self, node: &Node) {
        match self {
            Self::Log(log) => log.note(node),
            Self::Probe(probe) => probe.take(node),
        }
    }
}

/// Progress of a file of hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateLogState {
    every: u64,
    next: u64,
    pub(crate) length: u64,
}

impl StateLog {
    /// Saves its progress.
    ///
    /// # Errors
    /// If the host cannot write the buffered data.
    pub(crate) fn keep(&mut self) -> io::Result<StateLogState> {
        self.save()?;
        Ok(StateLogState {
            every: self.every,
            next: self.next,
            length: self.file.stream_position()?,
        })
    }

    /// Continues `file`, positioned where it was when [kept](Self::keep).
    pub(crate) fn resume(saved: StateLogState, file: BufWriter<File>) -> Self {
        Self {
            every: saved.every.max(1),
            next: saved.next,
            lines: Vec::new(),
            file,
        }
    }

    /// Writes to `file` every `every` instructions, from the start on.
    pub fn new(every: u64, file: BufWriter<File>) -> Self {
        Self {
            every: every.max(1),
            next: 0,
            lines: format!("{TITLE}, every {}\n{COLUMNS}\n", every.max(1)).into_bytes(),
            file,
        }
    }

    fn note(&mut self, node: &Node) {
        self.write_line(node);
        // A clone does not begin at the first instruction.
        let lines = node.retired() / self.every + 1;
        self.next = lines.saturating_mul(self.every);
    }

    fn write_line(&mut self, node: &Node) {
        let hashes = node.state_hashes();
        let line = format!(
            "{} {} {:#x} {:032x} {:032x} {:032x}\n",
            node.retired(),
            node.now_cycles(),
            node.registers().rip,
            hashes.processor,
            hashes.memory,
            hashes.devices
        );
        self.lines.extend_from_slice(line.as_bytes());
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn end(&mut self, node: &Node) -> io::Result<()> {
        self.write_line(node);
        self.save()?;
        self.file.flush()
    }

    /// Writes the recorded lines to the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&mut self) -> io::Result<()> {
        self.file.write_all(&std::mem::take(&mut self.lines))
    }
}

impl Probe {
    fn take(&mut self, node: &Node) {
        self.points.pop_front();
        let (registers, system) = (node.registers(), node.system());
        let cs = system.segments[CS];
        let bits = match cs.attributes >> 13 & 3 {
            1 | 3 => 64,
            2 => 32,
            _ => 16,
        };
        let base = if bits == 64 { 0 } else { cs.base };
        let address = base.wrapping_add(registers.rip);
        let code = (1..=CODE_BYTES).rev().find_map(|length| {
            let mut bytes = vec![0; length];
            node.read_virtual(address, &mut bytes).ok().map(|()| bytes)
        });
        let pages = self.pages.iter().filter_map(|&page| {
            let bytes = node.read_physical(page, belljar_cpu::PAGE_SIZE as usize)?;
            Some((page, bytes))
        });
        self.samples.push(NodeSample {
            instructions: node.retired(),
            time: node.now(),
            processor: node.processor_state(),
            memory: node.page_hashes(),
            pages: pages.collect(),
            address,
            bits,
            code: code.unwrap_or_default(),
        });
    }
}

impl NodeSample {
    /// True if registers and memory are equal.
    pub fn agrees(&self, other: &Self) -> bool {
        self.processor == other.processor && self.memory == other.memory
    }
}

/// Reads a file of hashes; returns the fault in words if it is invalid.
///
/// # Errors
/// Names the first invalid line.
pub fn read_state_lines(text: &str) -> Result<Vec<StateLine>, String> {
    if !text.starts_with(TITLE) {
        return Err(format!("it does not begin with `{TITLE}`"));
    }
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.starts_with('#'))
        .map(|(number, line)| {
            parse_line(line).ok_or_else(|| format!("line {} is not a line of hashes", number + 1))
        })
        .collect()
}

fn parse_line(line: &str) -> Option<StateLine> {
    let words: Vec<&str> = line.split(' ').collect();
    let [instructions, cycles, _rip, processor, memory, _devices] = words[..] else {
        return None;
    };
    Some(StateLine {
        instructions: instructions.parse().ok()?,
        cycles: cycles.parse().ok()?,
        hashes: (processor.to_owned(), memory.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written_and_nothing_else_is() {
        let text = format!("{TITLE}, every 5\n{COLUMNS}\n0 0 0x10 a b c\n5 7 0x12 d e f\n");
        let lines = read_state_lines(&text).unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1].instructions, 5);
        assert_eq!(lines[1].hashes, ("d".to_owned(), "e".to_owned()));
        assert!(read_state_lines("0 0 0x10 a b c\n").is_err());
        let error = read_state_lines(&format!("{text}5 7\n")).unwrap_err();
        assert!(error.contains("line 5"), "{error}");
    }
}
