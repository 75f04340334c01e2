//! Files of a node, written into the run directory as they arrive.
//!
//! They stay beneath the node's own folder and within the limit, for any answer of the node. Used by the
//! keeper, one for each node.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;

use super::{Answer, AnswerError, AnswerPiece, NodeOutputs, RequestedFiles};
use crate::scenario::quantity::Bytes;
use belljar_files::Folder;

/// Maximum number of named files among those left out.
const NAMED: usize = 10;
/// The most files of one node.
const MOST_FILES: u64 = 1_000_000;
/// Longest name of a folder or file, and longest path.
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 4096;

/// Reasons to stop receiving from a node.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Its answer is invalid; the run is not affected.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// It sends more than requested.
    #[error("it sends more than {0} bytes or {MOST_FILES} files")]
    TooMuch(u64),
    /// This host fails.
    #[error("cannot write {path}: {source}")]
    Host {
        /// The file, in the folder of outputs.
        path: String,
        /// The host's reason.
        source: io::Error,
    },
}

/// The answer of one node.
pub(crate) struct Received {
    answer: Answer,
    outputs: NodeOutputs,
    limit: u64,
    current: Option<(String, BufWriter<File>)>,
}

impl Received {
    /// An empty state for node `node`.
    pub(crate) fn new(node: u32, wanted: &RequestedFiles) -> Self {
        Self {
            answer: Answer::default(),
            outputs: NodeOutputs {
                node,
                ..NodeOutputs::default()
            },
            limit: wanted.limit,
            current: None,
        }
    }

    /// True if the answer is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.answer.is_done()
    }

    /// Parses the next bytes of the node's answer and writes its files beneath `folder`.
    ///
    /// # Errors
    /// [`Refused`]; only [`Refused::Host`] is an error of this host.
    pub(crate) fn take(&mut self, bytes: &[u8], folder: &Folder) -> Result<(), Refused> {
        let mut answer = std::mem::take(&mut self.answer);
        let taken = answer.take(bytes, |part| self.take_part(part, folder));
        self.answer = answer;
        taken
    }

    fn take_part(&mut self, part: AnswerPiece<'_>, folder: &Folder) -> Result<(), Refused> {
        match part {
            AnswerPiece::File { name, size, mode } => self.begin(&name, size, mode, folder)?,
            AnswerPiece::Bytes(bytes) => {
                if let Some((path, file)) = &mut self.current {
                    let written = file.write_all(bytes);
                    written.map_err(failed(path))?;
                }
            }
            AnswerPiece::Left { name, size } => {
                let why = match size {
                    Some(size) => format!("{} exceed the rest of its limit", Bytes(size)),
                    None => "it is not a regular file, or cannot be read".to_owned(),
                };
                self.leave(&name, &why);
            }
            AnswerPiece::Done => self.end()?,
        }
        Ok(())
    }

    fn begin(&mut self, name: &str, size: u64, mode: u32, folder: &Folder) -> Result<(), Refused> {
        self.end()?;
        let room = self.limit.checked_sub(self.outputs.bytes);
        if self.outputs.files >= MOST_FILES || room.is_none_or(|room| size > room) {
            return Err(Refused::TooMuch(self.limit));
        }
        if !is_usable(name) {
            self.leave(name, "a file here cannot have such a name");
            return Ok(());
        }
        let path = format!("node{}/{name}", self.outputs.node);
        let file = match create(folder, &path) {
            Ok(file) => file,
            Err(error) if is_the_names_fault(&error) => {
                self.leave(name, &error.to_string());
                return Ok(());
            }
            Err(source) => return Err(failed(&path)(source)),
        };
        let rights = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
        let set = file.set_permissions(Permissions::from_mode(rights));
        set.map_err(failed(&path))?;
        self.outputs.files += 1;
        self.outputs.bytes += size;
        self.current = Some((path, BufWriter::with_capacity(1 << 16, file)));
        Ok(())
    }

    /// Completes the current file.
    fn end(&mut self) -> Result<(), Refused> {
        match self.current.take() {
            Some((path, mut file)) => file.flush().map_err(failed(&path)),
            None => Ok(()),
        }
    }

    fn leave(&mut self, name: &str, why: &str) {
        self.outputs.left_out_count += 1;
        if self.outputs.left_out.len() < NAMED {
            let name: String = name.chars().take(200).collect();
            let left_out = &mut self.outputs.left_out;
            left_out.push(format!("{}: {why}", name.escape_debug()));
        }
    }

    /// The received files, and the reason if any are missing.
    ///
    /// # Errors
    /// If this host fails.
    pub(crate) fn finish(mut self, why: Option<String>) -> Result<NodeOutputs, Refused> {
        self.end()?;
        self.outputs.failed = why;
        Ok(self.outputs)
    }
}

fn failed(path: &str) -> impl FnOnce(io::Error) -> Refused + use<> {
    let path = path.to_owned();
    move |source| Refused::Host { path, source }
}

fn create(folder: &Folder, path: &str) -> io::Result<File> {
    if let Some((above, _)) = path.rsplit_once('/') {
        folder.folder(above)?;
    }
    folder.create(path)
}

/// True if the guest's names cause the error, such as a file that is a folder, too.
fn is_the_names_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, IsADirectory, NotADirectory};
    let kinds = [InvalidFilename, InvalidInput, IsADirectory, NotADirectory];
    kinds.contains(&error.kind())
}

/// True if a file of this name can be made beneath a folder.
fn is_usable(name: &str) -> bool {
    let usable = |part: &str| {
        !matches!(part, "" | "." | "..") && part.len() <= LONGEST_NAME && !part.contains('\0')
    };
    name.len() <= LONGEST_PATH && name.split('/').all(usable)
}
