//! The nodes' files, asked for when the run has ended and all that was recorded is taken.
//!
//! Each node is asked by itself, where it runs; what it answers goes to the `Keeper` of the host that
//! has the run directory.

use std::sync::mpsc::SyncSender;

use super::{Run, RunError};
use crate::hosts::{HEAD, Message};
use crate::results::outputs::{Keeper, NodeOutputs, Wanted, Word};
use belljar_files::Folder;

/// What is to be asked, and where it goes.
#[derive(Debug)]
pub(super) struct Collection {
    wanted: Wanted,
    /// Where the run directory is: its folder for files, until somebody keeps them there.
    folder: Option<Folder>,
    keeper: Option<SyncSender<Word>>,
    /// What came of the nodes.
    pub(super) outputs: Vec<NodeOutputs>,
}

impl Collection {
    pub(super) fn new(wanted: Wanted, folder: Option<Folder>) -> Self {
        Self {
            wanted,
            folder,
            keeper: None,
            outputs: Vec::new(),
        }
    }

    /// Who keeps the files, to be run in a thread of its own; none where another host does.
    pub(super) fn keeper(&mut self) -> Option<Keeper> {
        let folder = self.folder.take()?;
        let (keeper, words) = Keeper::new(folder, self.wanted.clone());
        self.keeper = Some(words);
        Some(keeper)
    }

    /// Nothing more comes.
    pub(super) fn close(&mut self) {
        self.keeper = None;
    }

    /// Hands on what another host says of its nodes' files.
    pub(super) fn pass(&self, word: Word) {
        if let Some(keeper) = &self.keeper {
            // Whoever keeps them has failed otherwise, and says so.
            let _ = keeper.send(word);
        }
    }
}

impl Run {
    /// Files of the nodes, if the scenario wants any: what came of each node, in order.
    pub fn outputs(&self) -> &[NodeOutputs] {
        self.collection
            .as_ref()
            .map_or(&[], |collection| &collection.outputs)
    }

    /// Asks all nodes here for their files.
    pub(super) fn collect_files(&mut self) -> Result<(), RunError> {
        let Some(collection) = &self.collection else {
            return Ok(());
        };
        let elsewhere = self.others.as_ref().map(|others| &others.exchange);
        let elsewhere = elsewhere.filter(|exchange| !exchange.is_head());
        let say = |word| match elsewhere {
            Some(exchange) => exchange.tell_slowly(HEAD, &Message::Outputs(word)),
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
