//! Receives: the work that takes in sent messages, from a pair's own ring or from a queue that several pairs share.
//!
//! A ring's doorbell record in the program's memory counts the posted receives; no doorbell rings. A shared queue is a linked list, in the order in
//! which the program posts. Responder and datagrams take receives here.

use serde::{Deserialize, Serialize};

use crate::Step;
use crate::events::kind;
use crate::fields::{put, u8_at, u16_at, u32_at, u64_at};
use crate::lent::Buffer;
use crate::memory;
use crate::pair::QueuePair;
use crate::work::{Segment, receive_segments, room};

/// The largest stride of a receive.
const LONGEST: usize = 512;

/// A shared receive queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SharedReceive {
    buffer: Buffer,
    log_size: u8,
    log_stride: u8,
    /// Physical address of the doorbell record.
    record: u64,
    /// The next receive of the list.
    head: u16,
    /// Receives taken.
    taken: u16,
    /// An event is due when fewer are left; 0 for none.
    limit: u16,
}

/// A receive that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receive {
    /// Its index, for the completion.
    pub(crate) index: u16,
    pub(crate) segments: Vec<Segment>,
}

impl Receive {
    /// Bytes that it has room for.
    pub(crate) fn room(&self) -> u64 {
        room(&self.segments)
    }
}

impl Step<'_> {
    /// Gives a shared queue to the card. False if it exists.
    pub(crate) fn create_shared(&mut self, number: u32, context: &[u8]) -> bool {
        let queue = SharedReceive {
            buffer: Buffer {
                mtt: u64::from(u8_at(context, 0x13)) << 32 | u64::from(u32_at(context, 0x14) & !7),
                page_shift: (u8_at(context, 0x10) & 0x3f) + 12,
                start: 0,
            },
            log_size: (u8_at(context, 0) & 0xf).min(15),
            log_stride: (u8_at(context, 4) & 7) + 4,
            record: u64_at(context, 0x28),
            head: 0,
            taken: 0,
            limit: 0,
        };
        if self.core.shared.contains_key(&number) {
            return false;
        }
        self.core.shared.insert(number, queue);
        true
    }

    /// Returns a shared queue to the driver. False if there is none.
    pub(crate) fn destroy_shared(&mut self, number: u32) -> bool {
        self.core.shared.remove(&number).is_some()
    }

    /// The context of a shared queue; `None` if there is none.
    pub(crate) fn shared_context(&self, number: u32) -> Option<[u8; 64]> {
        let queue = self.core.shared.get(&number)?;
        let mut context = [0; 64];
        put(&mut context, 0, &[queue.log_size]);
        put(&mut context, 4, &[queue.log_stride - 4]);
        put(&mut context, 0x1c, &queue.limit.to_be_bytes());
        put(&mut context, 0x22, &queue.taken.to_be_bytes());
        Some(context)
    }

    /// Requests an event when fewer than `limit` receives are left. False if there is no such queue.
    pub(crate) fn arm_shared(&mut self, number: u32, limit: u16) -> bool {
        let Some(queue) = self.core.shared.get_mut(&number) else {
            return false;
        };
        queue.limit = limit;
        self.look_at_limit(number);
        true
    }

    fn look_at_limit(&mut self, number: u32) {
        let Some(queue) = self.core.shared.get_mut(&number) else {
            return;
        };
        let posted = memory::read_u32(self.ram, queue.record).unwrap_or_default() as u16;
        if queue.limit > 0 && posted.wrapping_sub(queue.taken) < queue.limit {
            queue.limit = 0;
            let data: [(usize, &[u8]); 1] = [(4, &number.to_be_bytes())];
            self.post_event(kind::SHARED_LIMIT, 0, &data);
        }
    }

    /// Takes the next receive of a pair; `None` if there is none.
    pub(crate) fn take_receive(&mut self, pair: &mut QueuePair) -> Option<Receive> {
        match pair.shared() {
            Some(number) => self.take_shared(number),
            None => self.take_own(pair),
        }
    }

    fn take_shared(&mut self, number: u32) -> Option<Receive> {
        let queue = self.core.shared.get_mut(&number)?;
        let posted = memory::read_u32(self.ram, queue.record)? as u16;
        if posted == queue.taken {
            return None;
        }
        let index = queue.head & ((1 << queue.log_size) - 1);
        let mut bytes = [0; LONGEST];
        let bytes = &mut bytes[..1 << queue.log_stride.min(9)];
        let at = u64::from(index) << queue.log_stride;
        queue.buffer.read(&self.core.lent, self.ram, at, bytes)?;
        queue.head = u16_at(bytes, 2);
        queue.taken = queue.taken.wrapping_add(1);
        let segments = receive_segments(&bytes[16..]);
        self.look_at_limit(number);
        Some(Receive { index, segments })
    }

    fn take_own(&mut self, pair: &mut QueuePair) -> Option<Receive> {
        let ring = pair.rings().1?;
        let posted = memory::read_u32(self.ram, pair.record())? as u16;
        let counter = pair.responder.taken;
        if posted == counter || posted.wrapping_sub(counter) > ring.count() {
            return None;
        }
        let mut bytes = [0; LONGEST];
        let bytes = &mut bytes[..ring.stride().min(LONGEST)];
        let buffer = pair.buffer();
        buffer.read(&self.core.lent, self.ram, ring.place(counter), bytes)?;
        pair.responder.taken = counter.wrapping_add(1);
        Some(Receive {
            index: counter,
            segments: receive_segments(bytes),
        })
    }
}
