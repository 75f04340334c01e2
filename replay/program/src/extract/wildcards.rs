//! Receives with wildcards: what they got.
//!
//! The status of a completed receive names its message. Without a status, a receive is matched after the trace ends, with a
//! message that no other receive got; where several senders have such messages, the match is a guess, and counted as one. Called by `extract`.

use belljar_analysis::Member;
use belljar_trace::{Event, Status};

use super::{Extractor, Open};
use crate::program::Operation;
use crate::thread::Growing;

/// What a receive with a wildcard asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Its communicator, by the process's own number.
    pub(super) communicator: u32,
    /// The tag, if it is not any.
    pub(super) tag: Option<i32>,
    /// Whether its data lies in pieces.
    pub(super) pieces: bool,
}

/// A receive of which nobody tells what it got.
pub(super) struct Unsettled {
    open: Open,
    asked: Asked,
    /// The communicator's number for all of its members.
    communicator: u32,
    receiver: Member,
}

impl Extractor<'_> {
    /// An operation turned out to be this.
    pub(super) fn mend(&mut self, open: Open, operation: Operation) {
        if let Some(thread) = self.threads.get_mut(&open.thread) {
            thread.mend(open.at, operation);
        }
    }

    /// An operation is over: if it is a receive with a wildcard, the status tells what it got.
    pub(super) fn got(&mut self, event: &Event, open: Open, status: Option<Status>) {
        let Some(asked) = open.asked else {
            return;
        };
        let number = asked.communicator;
        let process = (event.node, event.process);
        let communicator = self.communicators.identity(process, number);
        let (Some(communicator), Some(job)) = (communicator, self.communicators.job(process))
        else {
            self.shared.program.unknown.messages += 1;
            return;
        };
        let receiver = Member {
            job,
            rank: event.rank,
        };
        let got = status.and_then(|status| {
            let from = self.communicators.peer(process, number, status.source)?;
            Some((from, asked.tag.unwrap_or(status.tag)))
        });
        let Some((from, tag)) = got else {
            self.unsettled.push(Unsettled {
                open,
                asked,
                communicator,
                receiver,
            });
            return;
        };
        let channel = self.shared.channel(communicator, from, receiver, tag);
        let receive = Operation::Receive {
            channel,
            slot: open.slot,
            pieces: asked.pieces,
        };
        self.mend(open, receive);
    }

    /// Gives receives of which nobody tells what they got what is left: messages that were sent and that nobody received.
    pub(super) fn settle(&mut self) {
        let operations = self.threads.values().flat_map(Growing::operations);
        let mut left = self.shared.left(operations);
        for unsettled in std::mem::take(&mut self.unsettled) {
            let Unsettled {
                open,
                asked,
                communicator,
                receiver,
            } = unsettled;
            let to = self.shared.process(receiver);
            let channels = self.shared.program.channels.iter();
            let channels = channels.zip(&mut left).zip(0..);
            let mut found = channels.filter(|((channel, left), _)| {
                let fits = asked.tag.is_none_or(|tag| tag == channel.tag);
                **left > 0 && fits && (channel.communicator, channel.to) == (communicator, to)
            });
            let Some(((_, left), channel)) = found.next() else {
                self.shared.program.unknown.messages += 1;
                continue;
            };
            let several = found.next().is_some();
            drop(found);
            self.shared.program.unknown.guessed += u64::from(several);
            *left -= 1;
            let receive = Operation::Receive {
                channel,
                slot: open.slot,
                pieces: asked.pieces,
            };
            self.mend(open, receive);
        }
    }
}
