//! A virtqueue: rust-vmm's ring, with every chain checked before use.
//!
//! No chain loops or is longer than the queue, and each is [checked](Chain) before a device uses
//! it; a ring that is not entirely in RAM never becomes ready. `mmio` sets up queues; devices take
//! chains and return them.

use belljar_cpu::GuestRam;
use serde::{Deserialize, Serialize};
use virtio_bindings::bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress};

use super::chain::{Buffer, Chain};

/// A driver's violations of a queue's rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The ring's size, addresses or indices are invalid.
    #[error("the ring is unusable: {0}")]
    Ring(String),
    /// A chain loops, is longer than its queue, or leaves the descriptor table.
    #[error("the descriptor chain at {head} loops or leaves its table")]
    Chain {
        /// Its first descriptor.
        head: u16,
    },
    /// A readable buffer follows a writable one.
    #[error("the descriptor chain at {head} has a readable buffer after a writable one")]
    Order {
        /// Its first descriptor.
        head: u16,
    },
    /// A buffer is empty or not in RAM.
    #[error("the buffer at {addr:#x} of {len} bytes is empty or not in RAM")]
    Buffer {
        /// Guest-physical address.
        addr: u64,
        /// Length in bytes.
        len: u32,
    },
    /// The chain violates this device's protocol.
    #[error("the chain at {head} is not {expected}")]
    Shape {
        /// Its first descriptor.
        head: u16,
        /// The expected content.
        expected: &'static str,
    },
    /// The device's complaint before it was saved, as text.
    #[error("{0}")]
    Earlier(String),
    /// More chains are under way than the queue has descriptors.
    #[error("more chains are under way than the queue has room for")]
    Overrun,
}

impl From<virtio_queue::Error> for QueueError {
    fn from(error: virtio_queue::Error) -> Self {
        Self::Ring(error.to_string())
    }
}

/// The values that a driver writes before it declares a queue ready.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) size: u32,
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
}

/// The saved state of a queue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct QueueState {
    size: u16,
    /// Indices of the next available and used entries.
    next: (u16, u16),
    ready: bool,
    /// Addresses of descriptors, available ring and used ring.
    places: [u64; 3],
    setup: Setup,
    used: bool,
}

/// One virtqueue.
#[derive(Debug)]
pub struct Virtqueue {
    ring: Queue,
    pub(super) setup: Setup,
    used: bool,
}

impl Virtqueue {
    /// An unused queue of at most `max_size` descriptors (a power of two; other
    /// sizes give a queue that never becomes ready).
    pub(super) fn new(max_size: u16) -> Self {
        let setup = Setup {
            size: u32::from(max_size),
            descriptors: 0,
            available: 0,
            used: 0,
        };
        Self {
            ring: Queue::new(max_size).unwrap_or_default(),
            setup,
            used: false,
        }
    }

    /// The queue's whole state.
    pub(super) fn save(&self) -> QueueState {
        let ring = self.ring.state();
        QueueState {
            size: ring.size,
            next: (ring.next_avail, ring.next_used),
            ready: ring.ready,
            places: [ring.desc_table, ring.avail_ring, ring.used_ring],
            setup: self.setup,
            used: self.used,
        }
    }

    /// Loads the state of another queue of this size; `None` if it is invalid for a queue over
    /// `ram`.
    pub(super) fn load(&mut self, saved: &QueueState, ram: &GuestRam) -> Option<()> {
        let [desc_table, avail_ring, used_ring] = saved.places;
        let state = virtio_queue::QueueState {
            max_size: self.ring.max_size(),
            next_avail: saved.next.0,
            next_used: saved.next.1,
            event_idx_enabled: false,
            size: saved.size,
            ready: saved.ready,
            desc_table,
            avail_ring,
            used_ring,
        };
        let ring = Queue::try_from(state).ok()?;
        if saved.ready && !ring.is_valid(ram) {
            return None;
        }
        self.ring = ring;
        self.setup = saved.setup;
        self.used = saved.used;
        Some(())
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new(self.ring.max_size());
    }

    pub(super) fn max_size(&self) -> u16 {
        self.ring.max_size()
    }

    /// The number of descriptors that the driver configured.
    pub fn size(&self) -> u16 {
        self.ring.size()
    }

    /// True if the driver has declared the queue ready.
    pub fn ready(&self) -> bool {
        self.ring.ready()
    }

    pub(super) fn disable(&mut self) {
        self.ring.set_ready(false);
    }

    /// Applies the driver's setup, if it is valid.
    pub(super) fn enable(&mut self, ram: &GuestRam) -> Result<(), QueueError> {
        let size = u16::try_from(self.setup.size)
            .map_err(|_| QueueError::Ring(format!("{} descriptors", self.setup.size)))?;
        self.ring.try_set_size(size)?;
        self.ring
            .try_set_desc_table_address(GuestAddress(self.setup.descriptors))?;
        self.ring
            .try_set_avail_ring_address(GuestAddress(self.setup.available))?;
        self.ring
            .try_set_used_ring_address(GuestAddress(self.setup.used))?;
        self.ring.set_ready(true);
        if !self.ring.is_valid(ram) {
            self.ring.set_ready(false);
            return Err(QueueError::Ring("it is not wholly in RAM".into()));
        }
        Ok(())
    }

    /// Takes the next available chain. `None` if there is none, or while the queue is not ready.
    ///
    /// # Errors
    /// [`QueueError`] if the ring or the chain is invalid.
    pub fn pop(&mut self, ram: &GuestRam) -> Result<Option<Chain>, QueueError> {
        if !self.ring.ready() {
            return Ok(None);
        }
        let size = self.ring.size();
        let Some(descriptors) = self.ring.iter(ram)?.next() else {
            return Ok(None);
        };
        let head = descriptors.head_index();
        let mut chain = Chain::new(head);
        let mut complete = false;
        for (count, descriptor) in descriptors.enumerate() {
            if count >= usize::from(size) {
                return Err(QueueError::Chain { head });
            }
            let buffer = Buffer {
                addr: descriptor.addr().0,
                len: descriptor.len(),
            };
            chain.push(ram, buffer, descriptor.is_write_only())?;
            complete = !descriptor.has_next();
        }
        if complete {
            Ok(Some(chain))
        } else {
            Err(QueueError::Chain { head })
        }
    }

    /// Returns the last taken chain to the available ring.
    pub fn undo_pop(&mut self) {
        self.ring.go_to_previous_position();
    }

    /// Returns `chain` to the driver with `written` bytes written.
    ///
    /// # Errors
    /// [`QueueError::Ring`] if the used ring cannot be written.
    pub fn finish(
        &mut self,
        ram: &GuestRam,
        chain: &Chain,
        written: u32,
    ) -> Result<(), QueueError> {
        self.ring.add_used(ram, chain.head(), written)?;
        self.used = true;
        Ok(())
    }

    /// True if chains were returned since the last call and the driver wants an interrupt for them.
    pub(super) fn take_interrupt(&mut self, ram: &GuestRam) -> bool {
        if !std::mem::take(&mut self.used) {
            return false;
        }
        let flags = ram.read_obj::<u16>(GuestAddress(self.ring.avail_ring()));
        flags.map_or(true, |flags| {
            u32::from(u16::from_le(flags)) & VRING_AVAIL_F_NO_INTERRUPT == 0
        })
    }
}
