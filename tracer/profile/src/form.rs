//! The format of a profile's file.
//!
//! The file begins with `MAGIC` and the format's version (u32, little endian), followed by records. Each record has four numbers of 32 bits,
//! little endian: the kind (`HEAD`, `SAMPLES`, `END`), the bytes in the file, the unpacked bytes, and a CRC-32. The CRC-32 is of the first
//! three numbers and of the bytes in the file. The bytes follow, packed by zstd. Every record of samples can be read independently.

use serde::{Deserialize, Serialize};

/// The first bytes of a file.
pub(crate) const MAGIC: [u8; 8] = *b"BELLPROF";
/// The version of the format.
pub(crate) const VERSION: u32 = 2;

/// A [`Head`]: the first record.
pub(crate) const HEAD: u32 = 1;
/// [`Samples`].
pub(crate) const SAMPLES: u32 = 2;
/// A [`ProfileEnd`]: the last record.
pub(crate) const END: u32 = 3;

/// Most bytes of an unpacked record.
pub(crate) const MOST_BYTES: u32 = 32 << 20;
/// Samples of a record.
pub(crate) const MOST_SAMPLES: usize = 4096;
/// Most frames of a stack.
pub(crate) const MOST_FRAMES: usize = 64;

/// Returns the checksum of a record: of its kind, its lengths, and its bytes in the file.
pub(crate) fn checksum([kind, packed, plain]: [u32; 3], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for word in [kind, packed, plain] {
        hasher.update(&word.to_le_bytes());
    }
    hasher.update(bytes);
    hasher.finalize()
}

/// The subject of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The node.
    pub node: u32,
    /// Its processors.
    pub vcpus: u32,
    /// Virtual time between two points, in picoseconds.
    pub every: u64,
    /// The number of the first point; a point's time is its number times `every`.
    pub first: u64,
}

/// A program or library, as the node has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CodeFile {
    /// Its path.
    pub path: String,
    /// Its build ID; empty where it has none.
    pub build_id: Vec<u8>,
}

/// A frame of a sample's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SampleFrame {
    /// The file of the code, by its number.
    pub file: Option<u32>,
    /// The address of an instruction, relative to the file or, without a file, as in the process: of the running instruction, or of the call
    /// that has not returned.
    pub address: u64,
}

/// A processor's activity at a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The point's number.
    pub number: u64,
    /// The number of points that it stands for: one, except for instructions that take longer.
    pub count: u64,
    /// The processor.
    pub vcpu: u32,
    /// The address space: the physical address of its page tables.
    pub space: u64,
    /// The process's rank in `MPI_COMM_WORLD`, if known.
    pub rank: Option<u32>,
    /// The kernel's instruction, if the kernel was running.
    pub kernel: Option<u64>,
    /// The process's stack, by its number.
    pub stack: u32,
}

/// Samples in the order of the points, with their stacks and files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Samples {
    pub(crate) files: Vec<CodeFile>,
    /// From the innermost frame outward.
    pub(crate) stacks: Vec<Vec<SampleFrame>>,
    pub(crate) samples: Vec<Sample>,
}

impl Samples {
    /// True if all references are valid.
    pub(crate) fn is_sound(&self) -> bool {
        let has_file = |frame: &SampleFrame| {
            frame
                .file
                .is_none_or(|file| (file as usize) < self.files.len())
        };
        let is_stack =
            |stack: &Vec<SampleFrame>| stack.len() <= MOST_FRAMES && stack.iter().all(has_file);
        let has_stack = |sample: &Sample| (sample.stack as usize) < self.stacks.len();
        self.samples.len() <= MOST_SAMPLES
            && self.stacks.iter().all(is_stack)
            && self.samples.iter().all(has_stack)
    }
}

/// The end of a whole profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProfileEnd {
    /// The number of the first point that the run did not reach.
    pub(crate) next: u64,
}
