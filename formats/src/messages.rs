//! A program as sends, receives and waits of each rank.
//!
//! Both ends of a message have the same tag, which is unique between them: independent of the order in which a reader matches messages, it finds the
//! intended one. Only operations with both ends are included: a message without a receiver, or a collective operation that lacks a member, would block a
//! reader forever. Used by writers of formats.

/// The operations of a process, in order.
mod order;
/// Collective operations: whole, or as their messages.
mod parts;
/// Data of all processes that is needed before the first step.
mod tally;

use std::collections::BTreeMap;

use belljar_collectives::Call;
use belljar_program::{Operation, ProcessId, Program, Slot};

use order::{Item, in_order};
use parts::PartStepsCache;
use tally::Tally;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// The sender.
    pub from: ProcessId,
    /// The receiver.
    pub to: ProcessId,
    /// Unique between the two; below 2^31.
    pub tag: u32,
    /// Bytes of data.
    pub bytes: u64,
}

/// The next step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'p> {
    /// Works by itself for this many picoseconds.
    Work(u64),
    /// Begins to send.
    Send(Message),
    /// Begins to receive.
    Receive(Message),
    /// Waits until a message that it sends has left.
    Sent(Message),
    /// Waits until a message that it receives has arrived.
    Received(Message),
    /// Takes part in a collective operation of all ranks, until it is complete.
    Together(Together<'p>),
}

/// A rank's part in a collective operation of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together<'p> {
    /// Its arguments.
    pub call: &'p Call,
    program: &'p Program,
    parts: &'p [u32],
}

impl<'p> Together<'p> {
    /// Returns each rank's arguments, in the order of ranks.
    pub fn calls(&self) -> impl Iterator<Item = &'p Call> {
        let program = self.program;
        self.parts
            .iter()
            .filter_map(|part| parts::call_of(program, *part))
    }
}

/// Operations that are not among the steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Sends and receives without the other end.
    pub alone: u64,
    /// Messages of ranks to themselves.
    pub to_themselves: u64,
    /// Parts in collective operations in which other members take no part, or a different one.
    pub collectives: u64,
    /// Waits for messages without receiving them (`MPI_Probe`).
    pub probes: u64,
    /// Accesses to other processes' memory.
    pub accesses: u64,
    /// Parts in collective operations whose messages are all begun at once: the format has no order for operations that overlap a rank's other calls.
    pub unordered: u64,
    /// Threads beyond the first of their process, whose calls are in the order of the trace.
    pub threads: u64,
}

/// The steps of a program's ranks.
#[derive(Debug)]
pub struct Messages<'p> {
    program: &'p Program,
    tally: Tally<'p>,
}

impl<'p> Messages<'p> {
    /// Creates the steps of `program`. Collective operations of all ranks remain whole if `whole`, all others become messages.
    pub fn new(program: &'p Program, whole: bool) -> Self {
        Self {
            program,
            tally: Tally::new(program, whole),
        }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.program.processes.len() as u32
    }

    /// Returns the operations that are not among the steps.
    pub fn left_out(&self) -> LeftOut {
        self.tally.left_out
    }

    /// Passes the steps of a rank to `to`, in order.
    ///
    /// # Errors
    /// Returns the first error of `to`.
    pub fn rank<'m, E>(
        &'m self,
        rank: ProcessId,
        to: impl FnMut(Step<'m>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut teller = Teller {
            messages: self,
            rank,
            open: BTreeMap::new(),
            counts: BTreeMap::new(),
            parts: PartStepsCache::default(),
            to,
        };
        let threads = self.tally.threads_of(rank);
        in_order(self.program, threads, |item| teller.item(item))?;
        teller.end()
    }
}

/// The end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MessageEnd {
    Sends,
    Receives,
}

impl MessageEnd {
    fn begins<'p>(self, message: Message) -> Step<'p> {
        match self {
            Self::Sends => Step::Send(message),
            Self::Receives => Step::Receive(message),
        }
    }

    fn is_over<'p>(self, message: Message) -> Step<'p> {
        match self {
            Self::Sends => Step::Sent(message),
            Self::Receives => Step::Received(message),
        }
    }
}

/// Generates the steps of a rank.
struct Teller<'m, F> {
    messages: &'m Messages<'m>,
    rank: ProcessId,
    /// Operations in progress, by thread and slot.
    open: BTreeMap<(u32, Slot), Vec<(MessageEnd, Message)>>,
    /// Number of messages of each channel so far.
    counts: BTreeMap<u32, u32>,
    parts: PartStepsCache,
    to: F,
}

impl<'m, E, F: FnMut(Step<'m>) -> Result<(), E>> Teller<'m, F> {
    fn item(&mut self, item: Item<'m>) -> Result<(), E> {
        match item {
            Item::Work(0) => Ok(()),
            Item::Work(ps) => (self.to)(Step::Work(ps)),
            Item::Operation {
                operation,
                thread,
                blocking,
            } => self.operation(operation, thread, blocking),
        }
    }

    fn operation(&mut self, operation: &Operation, thread: u32, blocking: bool) -> Result<(), E> {
        match *operation {
            Operation::Send { channel, slot, .. }
            | Operation::SendPartitioned { channel, slot, .. } => {
                self.begin(channel, (thread, slot), MessageEnd::Sends)
            }
            Operation::Receive { channel, slot, .. } => {
                self.begin(channel, (thread, slot), MessageEnd::Receives)
            }
            Operation::Collective {
                collective,
                part,
                slot,
            } => self.collective(collective, part, (thread, slot), blocking),
            Operation::Wait { slot } => self.wait((thread, slot)),
            Operation::Access { .. }
            | Operation::Flush { .. }
            | Operation::Lock { .. }
            | Operation::Ready { .. }
            | Operation::Test { .. }
            | Operation::Probe { .. }
            | Operation::Nothing { .. } => Ok(()),
        }
    }

    fn begin(&mut self, channel: u32, slot: (u32, Slot), end: MessageEnd) -> Result<(), E> {
        let count = self.counts.entry(channel).or_default();
        let number = *count;
        *count += 1;
        let Some(message) = self.messages.tally.message(channel, number) else {
            return Ok(());
        };
        (self.to)(end.begins(message))?;
        self.open.insert(slot, vec![(end, message)]);
        Ok(())
    }

    fn wait(&mut self, slot: (u32, Slot)) -> Result<(), E> {
        for (end, message) in self.open.remove(&slot).unwrap_or_default() {
            (self.to)(end.is_over(message))?;
        }
        Ok(())
    }

    fn collective(
        &mut self,
        collective: u32,
        part: u32,
        slot: (u32, Slot),
        blocking: bool,
    ) -> Result<(), E> {
        let tally = &self.messages.tally;
        let program = self.messages.program;
        if let Some((times, parts)) = tally.whole(collective) {
            let Some(call) = parts::call_of(program, part) else {
                return Ok(());
            };
            let together = Together {
                call,
                program,
                parts,
            };
            return (0..times).try_for_each(|_| (self.to)(Step::Together(together)));
        }
        let Some(base) = tally.first_tag(collective) else {
            return Ok(());
        };
        let place = tally.place(collective, self.rank);
        let steps = self.parts.steps(tally, program, collective, part, place);
        let members = &program.collectives[collective as usize].members;
        let mut under_way: Vec<(MessageEnd, Message)> = Vec::new();
        let mut counts: BTreeMap<(MessageEnd, u32), u32> = BTreeMap::new();
        let mut over = 0;
        for (step, needs) in steps.iter() {
            let wanted = if blocking { *needs } else { 0 };
            for (end, message) in std::mem::take(&mut under_way) {
                if over < wanted {
                    (self.to)(end.is_over(message))?;
                    over += 1;
                } else {
                    under_way.push((end, message));
                }
            }
            let (end, other, bytes) = *step;
            let Some(&other) = members.get(other as usize) else {
                continue;
            };
            let count = counts.entry((end, other)).or_default();
            let tag = tally::collective_tag(base, *count);
            *count += 1;
            let (from, to) = match end {
                MessageEnd::Sends => (self.rank, other),
                MessageEnd::Receives => (other, self.rank),
            };
            let message = Message {
                from,
                to,
                tag,
                bytes,
            };
            (self.to)(end.begins(message))?;
            under_way.push((end, message));
        }
        if blocking {
            return under_way
                .into_iter()
                .try_for_each(|(end, message)| (self.to)(end.is_over(message)));
        }
        self.open.insert(slot, under_way);
        Ok(())
    }

    /// Waits for all operations that were never awaited.
    fn end(mut self) -> Result<(), E> {
        for (end, message) in std::mem::take(&mut self.open).into_values().flatten() {
            (self.to)(end.is_over(message))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
