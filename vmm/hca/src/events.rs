//! Event queues: the card's reports to its driver, by interrupts.
//!
//! An armed queue raises its interrupt once. Entries belong to the driver by an ownership bit that changes each time the index passes the
//! queue's end. Completion queues, commands and errors post events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Step;
use crate::fields::{put, u8_at, u32_at};
use crate::lent::Buffer;

/// Bytes of an entry, and where its ownership is.
const ENTRY: usize = 32;
const OWNER: usize = 31;
const NOT_VALID: u8 = 0x80;
/// The largest number of entries, as a binary logarithm.
const MOST_ENTRIES: u8 = 22;
/// Types of events that the driver directs to queues.
const TYPES: usize = 64;

/// Kinds of events.
pub(crate) mod kind {
    pub(crate) const COMPLETION: u8 = 0x00;
    pub(crate) const DRAINED: u8 = 0x03;
    pub(crate) const COMPLETION_ERROR: u8 = 0x04;
    pub(crate) const PORT_CHANGE: u8 = 0x09;
    pub(crate) const COMMAND: u8 = 0x0a;
    pub(crate) const INVALID_REQUEST: u8 = 0x10;
    pub(crate) const ACCESS: u8 = 0x11;
    pub(crate) const LAST_RECEIVE: u8 = 0x13;
    pub(crate) const SHARED_LIMIT: u8 = 0x14;
}

/// An event queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct EventQueue {
    buffer: Buffer,
    log_size: u8,
    vector: u16,
    producer: u32,
    consumer: u32,
    armed: bool,
}

/// The event queues, and which of them gets which events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EventQueues {
    queues: BTreeMap<u32, EventQueue>,
    /// By type, the queue.
    directed: Vec<Option<u32>>,
}

impl EventQueues {
    /// Directs the types of `mask` to queue `number`, or to none.
    pub(crate) fn direct(&mut self, mask: u64, number: Option<u32>) {
        self.directed.resize(TYPES, None);
        for (bit, to) in self.directed.iter_mut().enumerate() {
            if mask >> bit & 1 == 1 {
                *to = number;
            }
        }
    }

    /// The queue of events of a type.
    fn of(&self, kind: u8) -> Option<u32> {
        self.directed.get(usize::from(kind)).copied().flatten()
    }
}

impl Step<'_> {
    /// Gives a queue with the context of the driver's mailbox to the card. False if the queue exists or its buffer is not mapped.
    pub(crate) fn create_event_queue(&mut self, number: u32, context: &[u8]) -> bool {
        let log_size = u8_at(context, 0x0c) & 0x1f;
        let queue = EventQueue {
            buffer: buffer_of(context),
            log_size,
            vector: u16::from(u8_at(context, 0x17)),
            producer: 0,
            consumer: 0,
            armed: u32_at(context, 0) >> 8 & 0xf == 9,
        };
        if log_size > MOST_ENTRIES || self.core.events.queues.contains_key(&number) {
            return false;
        }
        for index in 0..1_u64 << log_size {
            let at = index * ENTRY as u64 + OWNER as u64;
            let lent = &self.core.lent;
            if queue
                .buffer
                .write(lent, self.ram, at, &[NOT_VALID])
                .is_none()
            {
                return false;
            }
        }
        self.core.events.queues.insert(number, queue);
        true
    }

    /// Returns a queue to the driver. False if there is none.
    pub(crate) fn destroy_event_queue(&mut self, number: u32) -> bool {
        self.core.events.queues.remove(&number).is_some()
    }

    /// The driver has read up to `consumer`, and arms the queue or not.
    pub(crate) fn ring_event_queue(&mut self, number: u32, consumer: u32, arm: bool) {
        let Some(queue) = self.core.events.queues.get_mut(&number) else {
            return;
        };
        queue.consumer = consumer & 0xff_ffff;
        if !arm {
            return;
        }
        let is_behind = (queue.producer ^ queue.consumer) & 0xff_ffff != 0;
        queue.armed = !is_behind;
        if is_behind {
            self.core.vectors.push(queue.vector);
        }
    }

    /// Posts an event of a kind to the queue that gets it.
    pub(crate) fn post_event(&mut self, kind: u8, subtype: u8, data: &[(usize, &[u8])]) {
        if let Some(number) = self.core.events.of(kind) {
            self.post_event_to(number, kind, subtype, data);
        }
    }

    /// Posts an event to a queue: fields by their offset in the entry.
    pub(crate) fn post_event_to(
        &mut self,
        number: u32,
        kind: u8,
        subtype: u8,
        data: &[(usize, &[u8])],
    ) {
        let Some(queue) = self.core.events.queues.get_mut(&number) else {
            return;
        };
        let mut entry = [0; ENTRY];
        (entry[1], entry[3]) = (kind, subtype);
        for (at, value) in data {
            put(&mut entry, *at, value);
        }
        let size = 1_u32 << queue.log_size;
        entry[OWNER] = if queue.producer & size != 0 {
            NOT_VALID
        } else {
            0
        };
        let at = u64::from(queue.producer & (size - 1)) * ENTRY as u64;
        // A driver that unmapped the buffer loses the event.
        let _ = queue.buffer.write(&self.core.lent, self.ram, at, &entry);
        queue.producer = queue.producer.wrapping_add(1) & 0xff_ffff;
        if std::mem::take(&mut queue.armed) {
            self.core.vectors.push(queue.vector);
        }
    }
}

/// The buffer of a queue whose context has the layout of event and completion queues.
pub(crate) fn buffer_of(context: &[u8]) -> Buffer {
    Buffer {
        mtt: u64::from(u8_at(context, 0x1b)) << 32 | u64::from(u32_at(context, 0x1c) & !7),
        page_shift: (u8_at(context, 0x18) & 0x3f) + 12,
        start: u64::from(u32_at(context, 0x08) & 0xfc0),
    }
}
