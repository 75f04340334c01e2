//! A record: all state of a run outside its files and its nodes' pages.
//!
//! ```text
//! "BELLCKPT"  version (4)  number of parts (4)
//! for each part: its length (8)  its XXH3 (8)  its bytes
//! ```
//!
//! Numbers are little endian. The first part is a [`RunRecord`], the others are
//! [`NodeRecord`]s, node by node.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use belljar_fabric::FabricState;
use belljar_files::open_input;
use belljar_lossless::LosslessState;
use belljar_replay::BackgroundState;
use belljar_sim::{CodecError, Time, decode, encode};
use belljar_vmm::{Identity, KeptPages};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::CheckpointError;
use crate::results::capture::CaptureState;
use crate::results::link_log::LinkLogState;
use crate::run::ending::Closing;
use crate::run::recorder::RecorderState;
use crate::run::runner::RunnerState;
use crate::run::stuck::StuckState;

const MAGIC: &[u8; 8] = b"BELLCKPT";
/// Increases with every change of the format, or of the meaning of saved state.
const VERSION: u32 = 28;
/// Maximum number of parts: the run's, and one for each node.
const MOST_PARTS: u32 = 1 << 16;
/// Longest part.
pub(crate) const LONGEST: usize = 1 << 30;

/// State of the whole run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    /// Its number, from 1.
    pub(crate) number: u32,
    /// Its identity.
    pub(crate) identity: Identity,
    /// Number of base snapshots: one for each kind of clones, or zero.
    pub(crate) bases: u32,
    /// Packs with nodes' pages, and the number of pages in each.
    pub(crate) packs: Vec<(u32, u64)>,
    pub(crate) now: Time,
    pub(crate) rounds: u64,
    pub(crate) typed: u64,
    /// Bytes of recorded input.
    pub(crate) input: u64,
    pub(crate) closing: Closing,
    pub(crate) fabric: FabricState,
    pub(crate) infiniband: Option<LosslessState>,
    pub(crate) stuck: Option<StuckState>,
    pub(crate) backgrounds: Vec<BackgroundState>,
    pub(crate) recorder: RecorderState,
    pub(crate) captures: Vec<CaptureState>,
    pub(crate) links: Option<LinkLogState>,
}

/// State of a node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NodeRecord<'a> {
    pub(crate) runner: RunnerState,
    pub(crate) pages: Cow<'a, KeptPages>,
}

impl NodeRecord<'_> {
    /// Its bytes.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, CodecError> {
        encode(self)
    }
}

/// A record as its parts.
#[derive(Debug)]
pub(crate) struct CheckpointRecord {
    parts: Vec<Vec<u8>>,
}

impl CheckpointRecord {
    /// A record without the nodes' parts.
    pub(crate) fn new(run: &RunRecord) -> Result<Self, CodecError> {
        Ok(Self {
            parts: vec![encode(run)?],
        })
    }

    #[cfg(test)]
    pub(crate) fn of_parts(parts: Vec<Vec<u8>>) -> Self {
        Self { parts }
    }

    /// Adds the next node's part, [encoded](NodeRecord::encode).
    pub(crate) fn add(&mut self, node: Vec<u8>) {
        self.parts.push(node);
    }

    /// Bytes of all parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Refuses a record that [`read`](Self::read) would refuse.
    ///
    /// # Errors
    /// [`CheckpointError::TooLarge`].
    pub(crate) fn check(&self) -> Result<(), CheckpointError> {
        let refused = |what: String, bytes: u64, most: u64| {
            if bytes <= most {
                return Ok(());
            }
            Err(CheckpointError::TooLarge { what, bytes, most })
        };
        for (number, part) in self.parts.iter().enumerate() {
            refused(name_of(number), part.len() as u64, LONGEST as u64)?;
        }
        let most = u64::from(MOST_PARTS);
        refused(
            "the number of nodes".to_owned(),
            self.parts.len() as u64,
            most,
        )
    }

    /// Checks that the record [written](Self::write) to `file` can be read again.
    ///
    /// # Errors
    /// [`CheckpointError::Unreadable`], with the fault.
    pub(crate) fn verify(mut file: &File) -> Result<(), CheckpointError> {
        let wrong = CheckpointError::Unreadable;
        let from_start = file.rewind().map_err(|error| error.to_string());
        let record = from_start
            .and_then(|()| Self::read_from(file))
            .map_err(wrong)?;
        let named = |number: usize, error: CodecError| {
            CheckpointError::Unreadable(format!("{}: {error}", name_of(number)))
        };
        record.run().map_err(|error| named(0, error))?;
        for node in 0..record.nodes() {
            record.node(node).map_err(|error| named(node + 1, error))?;
        }
        Ok(())
    }

    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        let mut file = BufWriter::new(file);
        file.write_all(MAGIC)?;
        file.write_all(&VERSION.to_le_bytes())?;
        file.write_all(&(self.parts.len() as u32).to_le_bytes())?;
        for part in &self.parts {
            file.write_all(&(part.len() as u64).to_le_bytes())?;
            file.write_all(&XxHash3_64::oneshot(part).to_le_bytes())?;
            file.write_all(part)?;
        }
        file.flush()
    }

    /// Reads a record and checks every byte; returns the fault in words if it is damaged.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let file = open_input(path).map_err(|error| error.to_string())?;
        Self::read_from(&file)
    }

    fn read_from(file: &File) -> Result<Self, String> {
        let mut file = BufReader::new(file);
        if field::<8>(&mut file)? != *MAGIC {
            return Err("it is not a checkpoint".to_owned());
        }
        let version = u32::from_le_bytes(field(&mut file)?);
        if version != VERSION {
            return Err(format!(
                "it has version {version} of the format, this belljar reads {VERSION}"
            ));
        }
        let count = u32::from_le_bytes(field(&mut file)?);
        if !(1..=MOST_PARTS).contains(&count) {
            return Err("it has an impossible number of parts".to_owned());
        }
        let parts: Result<_, String> = (0..count).map(|_| read_part(&mut file)).collect();
        let parts = parts?;
        match file.read(&mut [0]) {
            Ok(0) => Ok(Self { parts }),
            _ => Err("something follows its last part".to_owned()),
        }
    }

    /// The number of its nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.parts.len() - 1
    }

    /// The run's part.
    pub(crate) fn run(&self) -> Result<RunRecord, CodecError> {
        decode(&self.parts[0])
    }

    /// A node's part.
    pub(crate) fn node(&self, node: usize) -> Result<NodeRecord<'static>, CodecError> {
        decode(&self.parts[node + 1])
    }
}

/// The name of a part, in words.
fn name_of(part: usize) -> String {
    match part.checked_sub(1) {
        None => "the state of the run".to_owned(),
        Some(node) => format!("the state of node {node}"),
    }
}

fn field<const N: usize>(file: &mut impl Read) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    match file.read_exact(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err("it ends too early".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn read_part(file: &mut impl Read) -> Result<Vec<u8>, String> {
    let length = u64::from_le_bytes(field(file)?);
    let hash = u64::from_le_bytes(field(file)?);
    if length > LONGEST as u64 {
        return Err("a part has an impossible length".to_owned());
    }
    // Grows with the available data, so that a damaged length allocates nothing.
    let mut part = Vec::new();
    let read = file.take(length).read_to_end(&mut part);
    read.map_err(|error| error.to_string())?;
    if part.len() as u64 != length {
        return Err("it ends too early".to_owned());
    }
    if XxHash3_64::oneshot(&part) != hash {
        return Err("a part has another checksum".to_owned());
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_to_be_read_is_named_by_its_writer() {
        // Never touched, so that they take no memory.
        let parts = vec![vec![1; 40], vec![], vec![0; LONGEST + 1]];
        let refused = CheckpointRecord { parts }.check().unwrap_err().to_string();
        assert!(
            refused.contains("the state of node 1 is too large"),
            "{refused}"
        );
        let parts = vec![Vec::new(); MOST_PARTS as usize + 1];
        let refused = CheckpointRecord { parts }.check().unwrap_err().to_string();
        assert!(refused.contains("number of nodes"), "{refused}");
        CheckpointRecord {
            parts: vec![vec![0; LONGEST]],
        }
        .check()
        .unwrap();
    }

    #[test]
    fn what_cannot_be_decoded_is_no_checkpoint() {
        let file = tempfile::tempfile().unwrap();
        let record = CheckpointRecord {
            parts: vec![vec![1; 40], vec![2; 9]],
        };
        record.write(&file).unwrap();
        let refused = CheckpointRecord::verify(&file).unwrap_err().to_string();
        assert!(refused.contains("the state of the run"), "{refused}");
        file.set_len(70).unwrap();
        let refused = CheckpointRecord::verify(&file).unwrap_err().to_string();
        assert!(refused.contains("it ends too early"), "{refused}");
    }

    #[test]
    fn every_damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.checkpoint");
        let record = CheckpointRecord {
            parts: vec![vec![1; 40], vec![], vec![2; 9]],
        };
        record.write(&File::create(&path).unwrap()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(CheckpointRecord::read(&path).unwrap().parts, record.parts);
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            CheckpointRecord::read(&path).unwrap_err()
        };
        for length in 0..whole.len() {
            assert_eq!(refused(&whole[..length]), "it ends too early");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            refused(&damaged);
        }
        let more = [&whole[..], &[0]].concat();
        assert!(refused(&more).contains("follows"));
    }
}
