//! A program as sends, receives and waits of each rank.
//!
//! Each message is known to both of its ends by the same tag, which no other message between them has: so whatever the order is in which
//! a reader matches messages, it finds the one that the program meant. Only what has both ends is there: a message that nobody receives, or a collective
//! operation that a member does not take part in, would keep a reader waiting for ever. Called by writers of formats.

/// The operations of a process, in order.
mod order;
/// Collective operations: whole, or as their messages.
mod parts;
/// What is known of all processes before the first is told.
mod tally;

use std::collections::BTreeMap;

use belljar_collectives::Call;
use belljar_program::{Operation, ProcessId, Program, Slot};

use order::{Item, in_order};
use parts::Parts;
use tally::Tally;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// Who sends it.
    pub from: ProcessId,
    /// Who receives it.
    pub to: ProcessId,
    /// What tells it from others between the two; below 2^31.
    pub tag: u32,
    /// Bytes of data.
    pub bytes: u64,
}

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'p> {
    /// It works by itself for so many picoseconds.
    Work(u64),
    /// It begins to send.
    Send(Message),
    /// It begins to receive.
    Receive(Message),
    /// It waits until a message that it sends is gone.
    Sent(Message),
    /// It waits until a message that it receives has come.
    Received(Message),
    /// All ranks take part in a collective operation, and are through.
    Together(Together<'p>),
}

/// A rank's part in a collective operation of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together<'p> {
    /// What it passes.
    pub call: &'p Call,
    program: &'p Program,
    parts: &'p [u32],
}

impl<'p> Together<'p> {
    /// What each rank passes, in the order of ranks.
    pub fn calls(&self) -> impl Iterator<Item = &'p Call> {
        let program = self.program;
        self.parts
            .iter()
            .filter_map(|part| parts::call_of(program, *part))
    }
}

/// What has no place among steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Sends and receives without the other end.
    pub alone: u64,
    /// Messages of ranks to themselves.
    pub to_themselves: u64,
    /// Parts in collective operations that other members do not take part in, or otherwise.
    pub collectives: u64,
    /// Waits for messages that are not received by them (`MPI_Probe`).
    pub probes: u64,
    /// Accesses to other processes' memory.
    pub accesses: u64,
    /// Parts in collective operations whose messages are all begun at once: the format has no order for what happens during a rank's other calls.
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
    /// Those of `program`. Collective operations of all ranks are told as such where `whole` says so, all others as messages.
    pub fn new(program: &'p Program, whole: bool) -> Self {
        Self {
            program,
            tally: Tally::new(program, whole),
        }
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.program.processes.len() as u32
    }

    /// What has no place among the steps.
    pub fn left_out(&self) -> LeftOut {
        self.tally.left_out
    }

    /// Tells `to` the steps of a rank, in order.
    ///
    /// # Errors
    /// The first of `to`.
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
            parts: Parts::default(),
            to,
        };
        let threads = self.tally.threads_of(rank);
        in_order(self.program, threads, |item| teller.item(item))?;
        teller.end()
    }
}

/// Whether a rank sends or receives a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Sends,
    Receives,
}

impl End {
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

/// Tells the steps of a rank.
struct Teller<'m, F> {
    messages: &'m Messages<'m>,
    rank: ProcessId,
    /// What is under way, by thread and slot.
    open: BTreeMap<(u32, Slot), Vec<(End, Message)>>,
    /// Messages of each channel so far.
    counts: BTreeMap<u32, u32>,
    parts: Parts,
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
                self.begin(channel, (thread, slot), End::Sends)
            }
            Operation::Receive { channel, slot, .. } => {
                self.begin(channel, (thread, slot), End::Receives)
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

    fn begin(&mut self, channel: u32, slot: (u32, Slot), end: End) -> Result<(), E> {
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
        let steps = self.parts.steps(tally, program, (collective, part), place);
        let members = &program.collectives[collective as usize].members;
        let mut under_way: Vec<(End, Message)> = Vec::new();
        let mut counts: BTreeMap<(End, u32), u32> = BTreeMap::new();
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
                End::Sends => (self.rank, other),
                End::Receives => (other, self.rank),
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

    /// What nobody waited for is waited for.
    fn end(mut self) -> Result<(), E> {
        for (end, message) in std::mem::take(&mut self.open).into_values().flatten() {
            (self.to)(end.is_over(message))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
