//! Records of the user's probes: calls of any function besides MPI's.
//!
//! A [`Probe`] specifies a location and the values to read, a [`ProbeRecord`] describes one call. Values are words of registers
//! and memory, and texts that they pointed to; the probe specifies their meaning. Some probes belong to the run itself, to see
//! messages: `purpose` describes their records. Made by the tracer, written and read by `belljar-archive`.

/// Purposes of probes.
mod purpose;
/// Records as bytes.
mod recorded;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use belljar_mpi::FUNCTIONS;
use bincode::{Decode, Encode};

use crate::site::Site;

pub use purpose::{BUFFER_ACCESS, BufferAccessWord, MESSAGE, MessageWord, ProbePurpose};
pub use recorded::Recorded;

/// The name of the file of probe records in a run's directory.
pub const PROBES_FILE: &str = "probes.bjc";

/// Most probes of a run.
pub const MOST_PROBES: usize = 256;

/// Most arguments that a probe reads.
pub const MOST_PROBE_ARGUMENTS: usize = 16;

/// Most bytes of a text that are kept.
pub const MOST_PROBE_TEXT: usize = 64;

/// When a probe records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ProbeAt {
    /// When its function is entered.
    Entry,
    /// When its function returns; arguments are not read.
    Return,
    /// Both, in one record.
    Call,
}

/// The type of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ValueKind {
    /// An unsigned integer of 1, 2, 4 or 8 bytes.
    Unsigned(u8),
    /// A signed integer of 1, 2, 4 or 8 bytes.
    Signed(u8),
    /// An address.
    Pointer,
    /// The address of a text that ends with a zero byte; the text is read.
    Text,
    /// A number in single precision, in a vector register.
    Single,
    /// A number in double precision, in a vector register.
    Double,
}

/// The names of types in scenarios.
const KINDS: [(&str, ValueKind); 12] = [
    ("u8", ValueKind::Unsigned(1)),
    ("u16", ValueKind::Unsigned(2)),
    ("u32", ValueKind::Unsigned(4)),
    ("u64", ValueKind::Unsigned(8)),
    ("i8", ValueKind::Signed(1)),
    ("i16", ValueKind::Signed(2)),
    ("i32", ValueKind::Signed(4)),
    ("i64", ValueKind::Signed(8)),
    ("pointer", ValueKind::Pointer),
    ("string", ValueKind::Text),
    ("f32", ValueKind::Single),
    ("f64", ValueKind::Double),
];

/// An unknown name of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no type of a value; write u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, pointer or string"
)]
pub struct UnknownKind(String);

impl FromStr for ValueKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let mut kinds = KINDS.iter();
        let found = kinds.find(|(known, _)| *known == name);
        found
            .map(|(_, kind)| *kind)
            .ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds = KINDS.iter();
        let found = kinds.find(|(_, kind)| kind == self);
        f.write_str(found.map_or("u64", |(name, _)| name))
    }
}

impl ValueKind {
    /// True if it is passed in a vector register (System V ABI, 3.2.3, class SSE).
    pub fn is_scalar(self) -> bool {
        matches!(self, Self::Single | Self::Double)
    }

    /// Clears the bits of a register's word that the ABI leaves undefined; signed integers are extended.
    pub fn clean(self, word: u64) -> u64 {
        let unused = |bytes: u8| 64 - 8 * u32::from(bytes.clamp(1, 8));
        match self {
            Self::Unsigned(bytes) => word << unused(bytes) >> unused(bytes),
            Self::Signed(bytes) => {
                let signed = (word << unused(bytes)).cast_signed() >> unused(bytes);
                signed.cast_unsigned()
            }
            Self::Single => word & u64::from(u32::MAX),
            Self::Pointer | Self::Text | Self::Double => word,
        }
    }
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ProbeValue {
    /// A word, or the bits of a floating-point number.
    Word(u64),
    /// A text of at most [`MOST_PROBE_TEXT`] bytes; invalid UTF-8 is replaced.
    Text(String),
    /// The address of a text that could not be read there.
    Unreadable(u64),
    /// A value on the stack that could not be read.
    Missing,
}

impl ProbeValue {
    /// Returns the word, if it is one.
    pub fn word(&self) -> Option<u64> {
        match self {
            Self::Word(word) => Some(*word),
            _ => None,
        }
    }

    /// Formats the value as text.
    pub fn in_words(&self, kind: ValueKind) -> String {
        match (self, kind) {
            (Self::Text(text), _) => format!("{text:?}"),
            (Self::Unreadable(address), _) => format!("unreadable at {address:#x}"),
            (Self::Missing, _) => "?".to_owned(),
            (Self::Word(word), ValueKind::Unsigned(_)) => word.to_string(),
            (Self::Word(word), ValueKind::Signed(_)) => word.cast_signed().to_string(),
            (Self::Word(word), ValueKind::Pointer | ValueKind::Text) => format!("{word:#x}"),
            (Self::Word(word), ValueKind::Single) => format!("{:?}", f32::from_bits(*word as u32)),
            (Self::Word(word), ValueKind::Double) => format!("{:?}", f64::from_bits(*word)),
        }
    }
}

/// A probe of the user's.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Probe {
    /// Its name in listings.
    pub name: String,
    /// Its file: a path in the image, or the name of a file of the workload; or a pattern of them.
    pub file: String,
    /// When it records.
    pub at: ProbeAt,
    /// The types of its arguments.
    pub arguments: Vec<ValueKind>,
    /// The type of its result, if recorded.
    pub result: Option<ValueKind>,
    /// Its owner and purpose.
    pub purpose: ProbePurpose,
}

/// A call that a probe saw. [`Recorded`] encodes it with its site.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ProbeRecord {
    /// The number of its probe.
    pub probe: u32,
    /// Its node.
    pub node: u32,
    /// The processor on which it was entered.
    pub vcpu: u32,
    /// The calling process, by number among the processes of its node that reached a probe.
    pub task: u32,
    /// Its MPI process's number on its node, if it called MPI before.
    pub process: Option<u32>,
    /// The thread, by number among the threads of its process that reached a probe.
    pub thread: u32,
    /// Its rank in `MPI_COMM_WORLD`, as far as known then.
    pub rank: Option<u32>,
    /// The name by which its program was started; empty if unknown.
    pub program: Arc<str>,
    /// The number of probed calls around it in its thread whose returns are recorded.
    pub depth: u16,
    /// When it was entered, in cycles of its node.
    pub entry: u64,
    /// When it returned; `None` for probes that record entries, and for calls that did not return normally.
    pub exit: Option<u64>,
    /// When the record was complete: at its entry or return, or when it was found to have been left otherwise. Records are
    /// ordered by it.
    pub known: u64,
    /// Its arguments.
    pub arguments: Vec<ProbeValue>,
    /// Its result.
    pub result: Option<ProbeValue>,
    /// The function of the MPI call within which it was made, by number; the outermost of several.
    pub within: Option<u16>,
    /// Its call site, in runs that record frames.
    pub site: Site,
}

impl ProbeRecord {
    /// True if it is a valid record of one of these probes.
    pub fn fits(&self, probes: &[Probe]) -> bool {
        let probe = probes.get(self.probe as usize);
        probe.is_some_and(|probe| {
            let arguments = match probe.at {
                ProbeAt::Return => 0,
                ProbeAt::Entry | ProbeAt::Call => probe.arguments.len(),
            };
            let result = self.result.is_none() || probe.result.is_some();
            let times = self.exit.is_none_or(|exit| exit >= self.entry) && self.known >= self.entry;
            let within = self
                .within
                .is_none_or(|it| usize::from(it) < FUNCTIONS.len());
            self.arguments.len() == arguments && result && times && within
        })
    }
}

/// Counters of probes at a run's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ProbesEnd {
    /// Calls whose returns were not followed because too many were open at once.
    pub unfollowed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_and_words() {
        for (name, kind) in KINDS {
            assert_eq!(name.parse(), Ok(kind));
            assert_eq!(kind.to_string(), name);
        }
        let error = "int".parse::<ValueKind>().unwrap_err().to_string();
        assert!(error.contains("`int`") && error.contains("i32"), "{error}");
        let word = |kind: ValueKind, word| ProbeValue::Word(kind.clean(word)).in_words(kind);
        let ones = 0xffff_ffff_ffff_fffe;
        assert_eq!(word(ValueKind::Signed(4), ones), "-2");
        assert_eq!(word(ValueKind::Unsigned(1), ones), "254");
        assert_eq!(word(ValueKind::Unsigned(8), ones), ones.to_string());
        assert_eq!(word(ValueKind::Signed(8), 7), "7");
        assert_eq!(word(ValueKind::Pointer, 0x1000), "0x1000");
        assert_eq!(word(ValueKind::Double, 0.5f64.to_bits()), "0.5");
        let single = 0xdead_beef_0000_0000 | u64::from(1.5f32.to_bits());
        assert_eq!(word(ValueKind::Single, single), "1.5");
    }
}
