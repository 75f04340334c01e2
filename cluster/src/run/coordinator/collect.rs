//! The nodes' files, requested after the end of the run when all records are collected.
//!
//! Each node is asked alone, on its host; its answer goes to the `Keeper` of the host with the run
//! directory.

use std::sync::mpsc::SyncSender;

use super::{Run, RunError};
use crate::hosts::{HEAD, HostMessage};
use crate::results::outputs::{Keeper, NodeOutputs, RequestedFiles, Word};
use belljar_files::Folder;

/// The requested files, and their destination.
#[derive(Debug)]
pub(super) struct Collection {
    wanted: RequestedFiles,
    /// On the host with the run directory: its folder for files, until the keeper takes it.
    folder: Option<Folder>,
    keeper: Option<SyncSender<Word>>,
    /// The outputs of the nodes.
    pub(super) outputs: Vec<NodeOutputs>,
}

impl Collection {
    pub(super) fn new(wanted: RequestedFiles, folder: Option<Folder>) -> Self {
        Self {
            wanted,
            folder,
            keeper: None,
            outputs: Vec::new(),
        }
    }

    /// The keeper of files, for a separate thread; `None` if another host has it.
    pub(super) fn keeper(&mut self) -> Option<Keeper> {
        let folder = self.folder.take()?;
        let (keeper, words) = Keeper::new(folder, self.wanted.clone());
        self.keeper = Some(words);
        Some(keeper)
    }

    /// Ends the messages.
    pub(super) fn close(&mut self) {
        self.keeper = None;
    }

    /// Forwards another host's message about its nodes' files.
    pub(super) fn pass(&self, word: Word) {
        if let Some(keeper) = &self.keeper {
            // The keeper has failed already, and reports it.
            let _ = keeper.send(word);
        }
    }
}

impl Run {
    /// The outputs of each node, in order, if the scenario requests any.
    pub fn outputs(&self) -> &[NodeOutputs] {
        self.collection
            .as_ref()
            .map_or(&[], |collection| &collection.outputs)
    }

    /// Requests files from all nodes here.
    pub(super) fn collect_files(&mut self) -> Result<(), RunError> {
        let Some(collection) = &self.collection else {
            return Ok(());
        };
        let elsewhere = self.others.as_ref().map(|others| &others.exchange);
        let elsewhere = elsewhere.filter(|exchange| !exchange.is_head());
        let say = |word| match elsewhere {
            Some(exchange) => exchange.tell_slowly(HEAD, &HostMessage::Outputs(word)),
            None => {
                collection.pass(word);
                Ok(())
            }
        };
        for mut runner in self.workers.runners() {
            let node = runner.index;
            let mut said = Ok(());
            let asked = runner.ask(&collection.wanted, |bytes| {
                said = say(Word::Bytes(node, bytes));
                said.is_ok()
            });
            said?;
            let why = asked.map_err(|source| RunError::Node { node, source })?;
            say(Word::End(node, why))?;
        }
        Ok(())
    }
}
