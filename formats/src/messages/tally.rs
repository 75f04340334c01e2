//! Data of all processes that is needed before the first step.
//!
//! It has the number of complete messages of each channel, and their bytes. It has the members of each collective operation, and thus whether it is kept whole,
//! converted to messages, or left out. It also has the first tags of channels and operations. Used by `messages`.

use std::collections::BTreeMap;

use belljar_program::{Operation, Participation, ProcessId, Program};

use super::order::{Item, in_order};
use super::{LeftOut, Message, parts};

/// Tags of messages that the program itself sends are below, those of collective operations from here on.
const COLLECTIVE_TAGS: u32 = 1 << 30;

/// Marks a member that takes no part.
const NOBODY: u32 = u32::MAX;

/// The representation of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CollectiveForm {
    /// It is left out.
    LeftOut,
    /// It is one step, repeated this many times.
    Whole(u32),
    /// It is converted to messages, with tags from this number on.
    Messages(u32),
}

/// Counts of a channel.
#[derive(Debug, Default)]
struct Counted {
    /// Bytes of each message sent.
    sent: Vec<u64>,
    received: u32,
    first_tag: u32,
}

/// A collective operation with its members' parts.
#[derive(Debug)]
struct Taken {
    /// Parts by member.
    parts: Vec<u32>,
    came: u32,
    /// True if all of them wait for it at once.
    blocking: bool,
    way: CollectiveForm,
}

/// Data of all processes.
#[derive(Debug)]
pub(super) struct Tally<'p> {
    program: &'p Program,
    threads: Vec<Vec<u32>>,
    channels: Vec<Counted>,
    places: BTreeMap<(u32, ProcessId), u32>,
    taken: Vec<Taken>,
    /// Direct messages: operation, receiver's position, sender's position, bytes.
    straight: Vec<(u32, u32, u32, u64)>,
    pub(super) left_out: LeftOut,
}

impl<'p> Tally<'p> {
    pub(super) fn new(program: &'p Program, whole: bool) -> Self {
        let mut threads = vec![Vec::new(); program.processes.len()];
        for (number, thread) in (0..).zip(&program.threads) {
            if let Some(own) = threads.get_mut(thread.process as usize) {
                own.push(number);
            }
        }
        let mut places = BTreeMap::new();
        for collective in &program.collectives {
            let of = collective.communicator;
            if collective
                .members
                .first()
                .is_some_and(|first| !places.contains_key(&(of, *first)))
            {
                let members = collective.members.iter().zip(0..);
                places.extend(members.map(|(member, place)| ((of, *member), place)));
            }
        }
        let taken = program.collectives.iter().map(|collective| Taken {
            parts: vec![NOBODY; collective.members.len()],
            came: 0,
            blocking: true,
            way: CollectiveForm::LeftOut,
        });
        let mut tally = Self {
            program,
            threads,
            channels: (0..program.channels.len())
                .map(|_| Counted::default())
                .collect(),
            places,
            taken: taken.collect(),
            straight: Vec::new(),
            left_out: LeftOut::default(),
        };
        for rank in 0..program.processes.len() as ProcessId {
            tally.walk(rank);
        }
        tally.straight.sort_unstable();
        tally.tag_channels();
        tally.choose(whole);
        tally
    }

    fn walk(&mut self, rank: ProcessId) {
        let program = self.program;
        let threads = std::mem::take(&mut self.threads[rank as usize]);
        self.left_out.threads += (threads.len() as u64).saturating_sub(1);
        let Ok(()) = in_order(program, &threads, |item| {
            if let Item::Operation {
                operation,
                blocking,
                ..
            } = item
            {
                self.operation(rank, operation, blocking);
            }
            Ok::<(), std::convert::Infallible>(())
        });
        self.threads[rank as usize] = threads;
    }

    fn operation(&mut self, rank: ProcessId, operation: &Operation, blocking: bool) {
        match operation {
            Operation::Send { channel, bytes, .. }
            | Operation::SendPartitioned { channel, bytes, .. } => {
                self.channels[*channel as usize].sent.push(*bytes);
            }
            Operation::Receive { channel, .. } => self.channels[*channel as usize].received += 1,
            Operation::Collective {
                collective, part, ..
            } => self.part(rank, *collective, *part, blocking),
            Operation::Access { .. } | Operation::Lock { .. } => self.left_out.accesses += 1,
            Operation::Probe { .. } => self.left_out.probes += 1,
            Operation::Wait { .. }
            | Operation::Test { .. }
            | Operation::Ready { .. }
            | Operation::Flush { .. }
            | Operation::Nothing { .. } => {}
        }
    }

    fn part(&mut self, rank: ProcessId, collective: u32, part: u32, blocking: bool) {
        let place = self.place(collective, rank);
        if let Participation::Direct { sends } = &self.program.parts[part as usize] {
            let sends = sends
                .iter()
                .map(|(to, bytes)| (collective, *to, place, *bytes));
            self.straight.extend(sends);
        }
        let taken = &mut self.taken[collective as usize];
        taken.blocking &= blocking;
        if let Some(own) = taken.parts.get_mut(place as usize)
            && *own == NOBODY
        {
            *own = part;
            taken.came += 1;
        }
    }

    /// Assigns tags to channels, and counts messages with only one end.
    fn tag_channels(&mut self) {
        let mut next: BTreeMap<(ProcessId, ProcessId), u64> = BTreeMap::new();
        for (channel, counted) in self.program.channels.iter().zip(&mut self.channels) {
            let sent = counted.sent.len() as u64;
            let received = u64::from(counted.received);
            let both = sent.min(received);
            self.left_out.alone += sent.max(received) - both;
            if channel.from == channel.to {
                self.left_out.to_themselves += both;
                counted.sent.clear();
                continue;
            }
            counted.sent.truncate(both as usize);
            let next = next.entry((channel.from, channel.to)).or_default();
            counted.first_tag = (*next % u64::from(COLLECTIVE_TAGS)) as u32;
            *next += both;
        }
    }

    /// Chooses the representation of each collective operation.
    fn choose(&mut self, whole: bool) {
        let mut next: u64 = 0;
        let mut lengths: BTreeMap<u32, u32> = BTreeMap::new();
        for number in 0..self.taken.len() {
            let taken = &self.taken[number];
            let members = &self.program.collectives[number].members;
            let all = taken.came as usize == members.len();
            let times = all.then(|| self.alike(taken)).flatten();
            let way = match times {
                None => CollectiveForm::LeftOut,
                Some(times) if whole && taken.blocking && self.is_world(members) && times > 0 => {
                    CollectiveForm::Whole(times)
                }
                Some(_) => {
                    let lengths = taken.parts.iter().map(|part| {
                        let count = || parts::scheduled(self.program, *part).len() as u32;
                        *lengths.entry(*part).or_insert_with(count)
                    });
                    let most = lengths.max().unwrap_or(0).max(members.len() as u32);
                    let first = next % u64::from(COLLECTIVE_TAGS);
                    next += u64::from(most);
                    CollectiveForm::Messages(first as u32)
                }
            };
            match way {
                CollectiveForm::LeftOut => self.left_out.collectives += u64::from(taken.came),
                CollectiveForm::Messages(_) if !taken.blocking => {
                    self.left_out.unordered += u64::from(taken.came);
                }
                _ => {}
            }
            self.taken[number].way = way;
        }
    }

    /// Returns the number of executions of the library's algorithm, 0 for direct messages; `None` if members differ.
    fn alike(&self, taken: &Taken) -> Option<u32> {
        let mut parts = (0..).zip(&taken.parts);
        let first = &self.program.parts[*taken.parts.first()? as usize];
        match first {
            Participation::Direct { .. } => parts
                .all(|(_, part)| {
                    matches!(
                        self.program.parts[*part as usize],
                        Participation::Direct { .. }
                    )
                })
                .then_some(0),
            Participation::Library {
                algorithm,
                call,
                times,
                ..
            } => parts
                .all(|(place, part)| match &self.program.parts[*part as usize] {
                    Participation::Library {
                        algorithm: own,
                        call: other,
                        times: others,
                        ..
                    } => {
                        (own, others) == (algorithm, times)
                            && (other.operation, other.root) == (call.operation, call.root)
                            && other.rank == place
                            && other.members as usize == taken.parts.len()
                    }
                    Participation::Direct { .. } => false,
                })
                .then_some(*times),
        }
    }

    /// True if these are all processes, in order.
    fn is_world(&self, members: &[ProcessId]) -> bool {
        members.len() == self.program.processes.len()
            && members
                .iter()
                .zip(0..)
                .all(|(member, rank)| *member == rank)
    }

    /// Returns the threads of a process.
    pub(super) fn threads_of(&self, rank: ProcessId) -> &[u32] {
        self.threads.get(rank as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the message with this number on a channel, if it has both ends.
    pub(super) fn message(&self, channel: u32, number: u32) -> Option<Message> {
        let counted = self.channels.get(channel as usize)?;
        let bytes = *counted.sent.get(number as usize)?;
        let of = self.program.channels[channel as usize];
        let tag = counted.first_tag.wrapping_add(number) % COLLECTIVE_TAGS;
        Some(Message {
            from: of.from,
            to: of.to,
            tag,
            bytes,
        })
    }

    /// Returns the rank of a process among the members of a collective operation's communicator.
    pub(super) fn place(&self, collective: u32, rank: ProcessId) -> u32 {
        let of = self.program.collectives[collective as usize].communicator;
        self.places.get(&(of, rank)).copied().unwrap_or(NOBODY)
    }

    /// Returns the number of repetitions of a collective operation that is one step, and its parts by rank; `None` for other representations.
    pub(super) fn whole(&self, collective: u32) -> Option<(u32, &[u32])> {
        let taken = self.taken.get(collective as usize)?;
        match taken.way {
            CollectiveForm::Whole(times) => Some((times, &taken.parts)),
            _ => None,
        }
    }

    /// Returns the first tag of a collective operation's messages; `None` for other representations.
    pub(super) fn first_tag(&self, collective: u32) -> Option<u32> {
        match self.taken.get(collective as usize)?.way {
            CollectiveForm::Messages(first) => Some(first),
            _ => None,
        }
    }

    /// Returns the direct messages to a member in a collective operation: the sending members, and the bytes.
    pub(super) fn straight_to(
        &self,
        collective: u32,
        place: u32,
    ) -> impl Iterator<Item = (u32, u64)> {
        let from = self
            .straight
            .partition_point(|it| (it.0, it.1) < (collective, place));
        let own = self.straight[from..].iter();
        own.take_while(move |it| (it.0, it.1) == (collective, place))
            .map(|it| (it.2, it.3))
    }
}

/// Returns the tag of a message between two members of an operation with this first tag.
pub(super) fn collective_tag(first: u32, number: u32) -> u32 {
    COLLECTIVE_TAGS + first.wrapping_add(number) % COLLECTIVE_TAGS
}
