//! The thread that writes the nodes' files, as threads with guests open none.
//!
//! Errors of a node do not stop it, only errors of this host. Started and fed by the coordinator of the host
//! with the run directory.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde::{Deserialize, Serialize};

use super::{NodeOutputs, Received, Refused, RequestedFiles};
use belljar_files::Folder;

/// Pieces that wait for the disk.
const WAITING: usize = 64;

/// A message about a node's files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// The next bytes of its answer.
    Bytes(u32, #[serde(with = "serde_bytes")] Vec<u8>),
    /// The end of its answer, and the reason if files are missing.
    End(u32, Option<String>),
}

/// Writes files into the run directory as they arrive.
pub(crate) struct Keeper {
    words: Receiver<Word>,
    folder: Folder,
    wanted: RequestedFiles,
}

impl Keeper {
    /// A keeper that fills `folder`, and the sender of its messages.
    pub(crate) fn new(folder: Folder, wanted: RequestedFiles) -> (Self, SyncSender<Word>) {
        let (sender, words) = sync_channel(WAITING);
        let keeper = Self {
            words,
            folder,
            wanted,
        };
        (keeper, sender)
    }

    /// Handles messages until all senders are dropped; returns the outputs of each node, by number.
    ///
    /// # Errors
    /// If this host fails. Messages of nodes cause no error.
    pub(crate) fn keep(self) -> Result<Vec<NodeOutputs>, Refused> {
        let mut open: BTreeMap<u32, Received> = BTreeMap::new();
        let mut whole: BTreeMap<u32, NodeOutputs> = BTreeMap::new();
        for word in &self.words {
            let (Word::Bytes(node, _) | Word::End(node, _)) = word;
            if whole.contains_key(&node) {
                continue;
            }
            let received = open
                .entry(node)
                .or_insert_with(|| Received::new(node, &self.wanted));
            let why = match word {
                Word::Bytes(_, bytes) => match received.take(&bytes, &self.folder) {
                    Ok(()) => continue,
                    Err(failed @ Refused::Host { .. }) => return Err(failed),
                    Err(refused) => Some(refused.to_string()),
                },
                Word::End(_, why) => why,
            };
            let Some(received) = open.remove(&node) else {
                continue;
            };
            let is_done = received.is_done();
            let why = why.or_else(|| (!is_done).then(|| "its answer is cut short".to_owned()));
            whole.insert(node, received.finish(why)?);
        }
        for (node, received) in open {
            let why = "its host is lost".to_owned();
            whole.insert(node, received.finish(Some(why))?);
        }
        Ok(whole.into_values().collect())
    }
}
