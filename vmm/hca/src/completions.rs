//! Completion queues: the card's reports to programs, without the kernel.
//!
//! The program polls entries by their ownership bit, and may arm a queue: the next entry then posts an event, once. A queue whose program does
//! not read stops with an error instead of overwriting entries. Requester and responder complete work here.

use belljar_verbs::Packet;
use serde::{Deserialize, Serialize};

use crate::Step;
use crate::events::{buffer_of, kind};
use crate::fields::{put, u8_at, u64_at};
use crate::lent::Buffer;
use crate::memory;
use crate::pair::QueuePair;
use crate::shared::Receive;

/// Bytes of an entry.
const ENTRY: usize = 32;
const OWNER: usize = 31;
/// Ownership, before the first pass.
const NOT_VALID: u8 = 0x80;
/// The largest number of entries, as a binary logarithm.
const MOST_ENTRIES: u8 = 22;
const INDEX: u32 = 0xff_ffff;
/// The entry that ends a queue whose buffer is replaced.
const RESIZED: u8 = 0x16;
const FAILED: u8 = 0x1e;
const OVERRUN: u8 = 1;

/// Opcodes on the receiving side.
pub(crate) mod received {
    pub(crate) const WRITTEN_IMMEDIATE: u8 = 0;
    pub(crate) const SENT: u8 = 1;
    pub(crate) const SENT_IMMEDIATE: u8 = 2;
    pub(crate) const SENT_INVALIDATE: u8 = 3;
}

/// Error syndromes of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failure {
    LocalLength = 0x01,
    LocalOperation = 0x02,
    LocalProtection = 0x04,
    Flushed = 0x05,
    BadResponse = 0x10,
    RemoteInvalid = 0x12,
    RemoteAccess = 0x13,
    RemoteOperation = 0x14,
    Retries = 0x15,
    NotReady = 0x16,
}

impl Failure {
    /// The failure of a receive that has room for a message or not, and whose memory took its bytes or not.
    pub(crate) fn of_receive(has_room: bool, written: Option<()>) -> Option<Self> {
        match (has_room, written) {
            (true, Some(())) => None,
            (false, _) => Some(Self::LocalLength),
            (true, None) => Some(Self::LocalProtection),
        }
    }
}

/// Arming of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Armed {
    #[default]
    No,
    /// For the next entry.
    Any,
    /// For the next entry that the sender marked, or that reports an error.
    Solicited,
}

/// A completion queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CompletionQueue {
    buffer: Buffer,
    log_size: u8,
    events: u32,
    /// Physical address of the doorbell record.
    record: u64,
    producer: u32,
    /// The index after the last entry that was marked.
    solicited: Option<u32>,
    /// The index after the last entry of which the program has had an event.
    announced: u32,
    armed: Armed,
    overrun: bool,
}

/// A completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Completion {
    pub(crate) queue_pair: u32,
    pub(crate) is_send: bool,
    pub(crate) opcode: u8,
    pub(crate) failure: Option<Failure>,
    pub(crate) immediate: u32,
    /// Of datagrams: sender's queue pair, and whether there is a global route header.
    pub(crate) source: u32,
    pub(crate) level: u8,
    pub(crate) from: u16,
    pub(crate) bytes: u32,
    /// Index of the completed work.
    pub(crate) work: u16,
    pub(crate) is_solicited: bool,
}

impl Completion {
    /// The completion of a receive by a message of `bytes`, whose last packet is `packet`.
    pub(crate) fn of_receive(
        pair: &QueuePair,
        receive: &Receive,
        packet: &Packet,
        opcode: u8,
        bytes: u32,
    ) -> Self {
        Self {
            queue_pair: pair.number,
            opcode,
            immediate: packet.extensions.immediate,
            source: pair.peer(),
            level: packet.level,
            from: packet.from,
            bytes,
            work: receive.index,
            is_solicited: packet.is_solicited,
            ..Self::default()
        }
    }

    fn to_bytes(self) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        put(
            &mut entry,
            0x00,
            &(self.queue_pair & 0xff_ffff).to_be_bytes(),
        );
        put(&mut entry, 0x04, &self.immediate.to_be_bytes());
        put(&mut entry, 0x08, &self.source.to_be_bytes());
        put(
            &mut entry,
            0x0c,
            &(u16::from(self.level) << 12).to_be_bytes(),
        );
        put(&mut entry, 0x0e, &self.from.to_be_bytes());
        put(&mut entry, 0x14, &self.bytes.to_be_bytes());
        put(&mut entry, 0x18, &self.work.to_be_bytes());
        let side = if self.is_send { 0x40 } else { 0 };
        entry[OWNER] = side | self.opcode;
        if let Some(failure) = self.failure {
            entry[0x1b] = failure as u8;
            entry[OWNER] = side | FAILED;
        }
        entry
    }
}

impl Step<'_> {
    /// Gives a queue to the card. False if the queue exists or its buffer is not mapped.
    pub(crate) fn create_completion_queue(
        &mut self,
        number: u32,
        context: &[u8],
        initialised: bool,
    ) -> bool {
        let queue = CompletionQueue {
            buffer: buffer_of(context),
            log_size: u8_at(context, 0x0c) & 0x1f,
            events: u32::from(u8_at(context, 0x17)),
            record: u64_at(context, 0x38),
            producer: 0,
            solicited: None,
            announced: 0,
            armed: Armed::No,
            overrun: false,
        };
        let is_new = !self.core.completions.contains_key(&number);
        if queue.log_size > MOST_ENTRIES || !is_new {
            return false;
        }
        if !initialised && self.disown(&queue, 0).is_none() {
            return false;
        }
        self.core.completions.insert(number, queue);
        true
    }

    /// Makes all entries of a buffer invalid for a program that reads from index `first` on.
    fn disown(&self, queue: &CompletionQueue, first: u32) -> Option<()> {
        let size = 1_u32 << queue.log_size;
        for slot in 0..size {
            // The pass in which the slot is written next.
            let index = first.wrapping_add(slot.wrapping_sub(first) & (size - 1));
            let owner = if index & size != 0 { 0 } else { NOT_VALID };
            let at = u64::from(slot) * ENTRY as u64 + OWNER as u64;
            queue
                .buffer
                .write(&self.core.lent, self.ram, at, &[owner])?;
        }
        Some(())
    }

    /// Returns a queue to the driver. False if there is none.
    pub(crate) fn destroy_completion_queue(&mut self, number: u32) -> bool {
        self.core.completions.remove(&number).is_some()
    }

    /// Continues a queue in another buffer: the present one ends with an entry that says so.
    pub(crate) fn resize_completion_queue(&mut self, number: u32, context: &[u8]) -> bool {
        let end = Completion::default();
        let mut entry = end.to_bytes();
        entry[OWNER] = RESIZED;
        if !self.write_entry(number, entry) {
            return false;
        }
        let Some(queue) = self.core.completions.get(&number) else {
            return false;
        };
        let mut queue = queue.clone();
        queue.buffer = buffer_of(context);
        queue.log_size = u8_at(context, 0x0c) & 0x1f;
        if queue.log_size > MOST_ENTRIES || self.disown(&queue, queue.producer).is_none() {
            return false;
        }
        self.core.completions.insert(number, queue);
        true
    }

    /// The context of a queue, as far as drivers look at it; `None` if there is none.
    pub(crate) fn completion_context(&self, number: u32) -> Option<[u8; 64]> {
        let queue = self.core.completions.get(&number)?;
        let mut context = [0; 64];
        put(&mut context, 0x0c, &[queue.log_size]);
        put(&mut context, 0x14, &queue.events.to_be_bytes());
        put(&mut context, 0x30, &queue.producer.to_be_bytes());
        put(&mut context, 0x38, &queue.record.to_be_bytes());
        Some(context)
    }

    /// The program arms a queue; it has read up to `consumer`.
    pub(crate) fn arm(&mut self, number: u32, command: u32, consumer: u32) {
        let Some(queue) = self.core.completions.get_mut(&number) else {
            return;
        };
        // An entry that has had its event has no second one: programs may arm a queue before they read it.
        let announced = queue.announced;
        let is_after = |to: u32, from: u32| {
            let distance = to.wrapping_sub(from) & INDEX;
            distance.wrapping_sub(1) < INDEX / 2
        };
        let unread = |to: u32| is_after(to, consumer) && is_after(to, announced);
        let (armed, is_due) = match command {
            1 => (Armed::Solicited, queue.solicited.is_some_and(unread)),
            2 => (Armed::Any, unread(queue.producer)),
            _ => return,
        };
        queue.armed = armed;
        if is_due {
            self.announce(number);
        }
    }

    /// Posts the event of an armed queue.
    fn announce(&mut self, number: u32) {
        if let Some(queue) = self.core.completions.get_mut(&number) {
            queue.armed = Armed::No;
            queue.announced = queue.producer;
            let events = queue.events;
            let data: [(usize, &[u8]); 1] = [(4, &number.to_be_bytes())];
            self.post_event_to(events, kind::COMPLETION, 0, &data);
        }
    }

    /// Adds a completion to a queue.
    pub(crate) fn complete(&mut self, number: u32, completion: Completion) {
        self.core.counters.completions += 1;
        if !self.write_entry(number, completion.to_bytes()) {
            return;
        }
        let Some(queue) = self.core.completions.get_mut(&number) else {
            return;
        };
        let is_marked = completion.is_solicited || completion.failure.is_some();
        if is_marked {
            queue.solicited = Some(queue.producer);
        }
        let is_due = match queue.armed {
            Armed::No => false,
            Armed::Any => true,
            Armed::Solicited => is_marked,
        };
        if is_due {
            self.announce(number);
        }
    }

    /// Writes an entry with its ownership. False if there is no room.
    fn write_entry(&mut self, number: u32, mut entry: [u8; ENTRY]) -> bool {
        let Some(queue) = self.core.completions.get_mut(&number) else {
            return false;
        };
        let size = 1_u32 << queue.log_size;
        let consumer = memory::read_u32(self.ram, queue.record).unwrap_or_default();
        let unread = queue.producer.wrapping_sub(consumer) & INDEX;
        if queue.overrun || unread >= size {
            let is_news = !std::mem::replace(&mut queue.overrun, true);
            if is_news {
                let data: [(usize, &[u8]); 2] = [(4, &number.to_be_bytes()), (0x0f, &[OVERRUN])];
                self.post_event(kind::COMPLETION_ERROR, 0, &data);
            }
            return false;
        }
        if queue.producer & size != 0 {
            entry[OWNER] |= NOT_VALID;
        }
        let at = u64::from(queue.producer & (size - 1)) * ENTRY as u64;
        // A program that unmapped the buffer loses the completion.
        let _ = queue.buffer.write(&self.core.lent, self.ram, at, &entry);
        queue.producer = queue.producer.wrapping_add(1) & INDEX;
        true
    }
}
