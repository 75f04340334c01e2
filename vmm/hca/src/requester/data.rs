//! Data of work, from memory to packets and back.
//!
//! Every access is checked against its key first. Memory answers in order, so data are in the card no earlier than those requested before.
//! Requester, responder and datagrams read and write here.

use belljar_sim::{Span, Time};

use crate::Step;
use crate::region::{Keys, Right};
use crate::work::{Data, Segment};

impl Step<'_> {
    /// The node's memory by key.
    pub(crate) fn keys(&self) -> Keys<'_> {
        Keys {
            lent: &self.core.lent,
            ram: self.ram,
        }
    }

    /// The time at which `bytes` of a request's data are in the card, if the card asks for them at `at`. Memory answers in order.
    pub(crate) fn fetched(&mut self, data: &[Data], bytes: usize, at: Time) -> Time {
        let is_inline = data.iter().all(|piece| matches!(piece, Data::Inline(_)));
        if bytes == 0 || is_inline {
            return at;
        }
        self.fetched_from_memory(bytes, at)
    }

    /// The same for `bytes` in memory.
    pub(crate) fn fetched_from_memory(&mut self, bytes: usize, at: Time) -> Time {
        let delays = &self.config.delays;
        let first = (at + delays.fetch).max(self.core.fetched);
        self.core.fetched = first + Span::of_transfer(bytes as u64, delays.bus);
        self.core.fetched
    }

    /// `length` bytes of a request's data from `offset` on; `None` if a key does not permit it.
    pub(crate) fn gather(
        &self,
        domain: u32,
        data: &[Data],
        offset: u64,
        length: usize,
    ) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut rest = &mut bytes[..];
        let mut start = 0;
        for piece in data {
            let end = start + piece.bytes();
            let skip = offset.saturating_sub(start).min(piece.bytes());
            let here = (piece.bytes() - skip).min(rest.len() as u64) as usize;
            if here > 0 {
                let (now, later) = std::mem::take(&mut rest).split_at_mut(here);
                match piece {
                    Data::Inline(own) => {
                        now.copy_from_slice(&own[skip as usize..skip as usize + here])
                    }
                    Data::Memory(segment) => {
                        let right = Right::LocalRead;
                        let length = u64::from(segment.bytes);
                        let keys = self.keys();
                        let from = keys.check(domain, segment.key, segment.addr, length, right)?;
                        keys.read(from, skip, now)?;
                    }
                }
                rest = later;
            }
            start = end;
        }
        rest.is_empty().then_some(bytes)
    }

    /// Writes bytes into segments from `offset` on; `None` if a key does not permit it, or if there is not enough room.
    pub(crate) fn scatter(
        &self,
        domain: u32,
        segments: &[Segment],
        offset: u64,
        mut bytes: &[u8],
    ) -> Option<()> {
        let mut start = 0;
        for segment in segments {
            let length = u64::from(segment.bytes);
            let skip = (offset.saturating_sub(start)).min(length);
            let here = (length - skip).min(bytes.len() as u64) as usize;
            if here > 0 {
                let keys = self.keys();
                let right = Right::LocalWrite;
                let to = keys.check(domain, segment.key, segment.addr, length, right)?;
                let (now, later) = bytes.split_at(here);
                keys.write(to, skip, now)?;
                bytes = later;
            }
            start += length;
        }
        bytes.is_empty().then_some(())
    }
}

/// The segments of data that is memory.
pub(crate) fn segments(data: &[Data]) -> Vec<Segment> {
    let memory = data.iter().filter_map(|piece| match piece {
        Data::Memory(segment) => Some(*segment),
        Data::Inline(_) => None,
    });
    memory.collect()
}
