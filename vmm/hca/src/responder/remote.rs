//! Reads and atomic operations.
//!
//! No memory is read or changed before the peer's rights, the key and the bounds are checked. A repeated atomic operation is answered with the
//! value that it found first, and is not carried out again. The responder passes such requests.

use belljar_verbs::{Operation, Packet, Psn};

use super::{Answer, Refusal};
use crate::Step;
use crate::pair::QueuePair;
use crate::region::Right;

/// Atomic operations whose answers are kept for repetitions.
const KEPT_ATOMICS: usize = 16;

impl Step<'_> {
    /// Begins the answer to a read. Returns how many packet numbers it takes.
    pub(super) fn begin_read(
        &mut self,
        pair: &mut QueuePair,
        packet: &Packet,
    ) -> Result<u32, Refusal> {
        if pair.responder.open.is_some() {
            return Err(Refusal::Invalid);
        }
        let length = u64::from(packet.extensions.length);
        if length > crate::work::LONGEST_MESSAGE {
            return Err(Refusal::Invalid);
        }
        if !self.may_read(pair, packet) {
            return Err(Refusal::NoAccess);
        }
        pair.responder.messages = pair.responder.messages.wrapping_add(1);
        self.answer_read(pair, packet);
        Ok(length.div_ceil(pair.mtu() as u64).max(1) as u32)
    }

    /// True if the peer may read what it requests.
    fn may_read(&self, pair: &QueuePair, packet: &Packet) -> bool {
        let of = &packet.extensions;
        let (length, right) = (u64::from(of.length), Right::RemoteRead);
        let keys = self.keys();
        let covered = || keys.check(pair.domain(), of.key, of.address, length, right);
        pair.permits().0 && (length == 0 || covered().is_some())
    }

    fn answer_read(&mut self, pair: &mut QueuePair, packet: &Packet) {
        let of = &packet.extensions;
        let answer = Answer::Read {
            psn: packet.psn.number(),
            addr: of.address,
            key: of.key,
            bytes: of.length,
            done: 0,
            messages: pair.responder.messages,
        };
        self.answer(pair, answer);
    }

    /// Carries an atomic operation out. Memory has the byte order of the machine.
    pub(super) fn swap(&mut self, pair: &mut QueuePair, packet: &Packet) -> Result<(), Refusal> {
        let of = &packet.extensions;
        if pair.responder.open.is_some() || !of.address.is_multiple_of(8) {
            return Err(Refusal::Invalid);
        }
        let keys = self.keys();
        let to = keys.check(pair.domain(), of.key, of.address, 8, Right::Atomic);
        let to = to.filter(|_| pair.permits().2).ok_or(Refusal::NoAccess)?;
        let mut bytes = [0; 8];
        keys.read(to, 0, &mut bytes).ok_or(Refusal::NoAccess)?;
        let former = u64::from_le_bytes(bytes);
        let next = match packet.opcode.operation {
            Operation::FetchAdd => former.wrapping_add(of.value),
            _ if former == of.compare => of.value,
            _ => former,
        };
        keys.write(to, 0, &next.to_le_bytes())
            .ok_or(Refusal::NoAccess)?;
        pair.responder.messages = pair.responder.messages.wrapping_add(1);
        pair.responder
            .atomics
            .push_back((packet.psn.number(), former));
        if pair.responder.atomics.len() > KEPT_ATOMICS {
            pair.responder.atomics.pop_front();
        }
        self.answer_former(pair, packet.psn, former);
        Ok(())
    }

    fn answer_former(&mut self, pair: &mut QueuePair, psn: Psn, value: u64) {
        let answer = Answer::Former {
            psn: psn.number(),
            value,
            messages: pair.responder.messages,
        };
        self.answer(pair, answer);
    }

    /// Answers a request that was carried out before. Only reads are carried out again.
    pub(super) fn repeat(&mut self, pair: &mut QueuePair, packet: &Packet) {
        match packet.opcode.operation {
            Operation::ReadRequest if self.may_read(pair, packet) => self.answer_read(pair, packet),
            Operation::ReadRequest => {}
            Operation::CompareSwap | Operation::FetchAdd => {
                let mut kept = pair.responder.atomics.iter();
                let former = kept.find(|(psn, _)| *psn == packet.psn.number());
                if let Some((_, former)) = former.copied() {
                    self.answer_former(pair, packet.psn, former);
                }
            }
            _ => {
                let last = pair.responder.expected().after(0xff_ffff);
                self.acknowledge_to_peer(pair, last);
            }
        }
    }
}
