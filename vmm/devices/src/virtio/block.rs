//! virtio-blk: requests complete a fixed latency after their notification, in order.
//!
//! A request's chain is checked before the disk is accessed, and there are never more requests
//! under way than the queue holds. A guest's error results in an error status or a request for a
//! reset; only the host's image file can fail the run. A node has one for each of its disks.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use belljar_cpu::{Cycles, GuestRam};
use virtio_bindings::bindings::virtio_blk as spec;

use super::{Chain, Device, DeviceError, Disk, QueueError, Virtqueue, Written};

/// Bytes of a sector, the unit of every request.
pub const SECTOR: u64 = 512;

const HEADER: u64 = 16;
const ID_BYTES: usize = 20;
const MAX_SEGMENTS: u32 = 126;
const MAX_SEGMENT_BYTES: u32 = 64 * 1024;
/// The largest amount of data in one request: all segments, at the sizes announced to the driver.
const MAX_DATA: u64 = MAX_SEGMENTS as u64 * MAX_SEGMENT_BYTES as u64;

/// A disk behind virtio-blk.
#[derive(Debug)]
pub struct Block {
    disk: Disk,
    name: String,
    latency: Cycles,
    under_way: VecDeque<(Cycles, Chain)>,
    completed: u64,
}

/// The saved state of a disk: all but its latency and its original contents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlockState {
    bytes: u64,
    written: Option<Written>,
    under_way: Vec<(Cycles, Chain)>,
    completed: u64,
}

impl Block {
    /// `disk` with serial number `name` (cut to 20 bytes), completing a request `latency` cycles
    /// after it is made available.
    pub fn new(disk: Disk, name: &str, latency: Cycles) -> Self {
        Self {
            disk,
            name: name.to_owned(),
            latency,
            under_way: VecDeque::new(),
            completed: 0,
        }
    }

    /// Number of completed requests.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Executes the request in `chain`; returns its status and the number of data bytes written.
    fn execute(&mut self, chain: &Chain, ram: &GuestRam) -> Result<(u32, u64), DeviceError> {
        let shape = |expected| QueueError::Shape {
            head: chain.head(),
            expected,
        };
        let header = chain
            .read(ram, 0..HEADER)
            .ok_or(shape("a block request header"))?;
        let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let mut sector = [0; 8];
        sector.copy_from_slice(&header[8..16]);
        let sector = u64::from_le_bytes(sector);
        let room = chain.writable_len() - 1;
        let data = chain.readable_len() - HEADER;
        match kind {
            spec::VIRTIO_BLK_T_IN => self.read(chain, ram, sector, room),
            spec::VIRTIO_BLK_T_OUT => self.write(chain, ram, sector, data),
            // Writes are already as durable as this disk can make them.
            spec::VIRTIO_BLK_T_FLUSH => Ok((spec::VIRTIO_BLK_S_OK, 0)),
            spec::VIRTIO_BLK_T_GET_ID => {
                let mut id = self.name.clone().into_bytes();
                id.resize(ID_BYTES, 0);
                id.truncate(usize::try_from(room).unwrap_or(ID_BYTES));
                chain.write(ram, 0, &id).ok_or(shape("a disk id buffer"))?;
                Ok((spec::VIRTIO_BLK_S_OK, id.len() as u64))
            }
            _ => Ok((spec::VIRTIO_BLK_S_UNSUPP, 0)),
        }
    }

    fn offset(&self, sector: u64, len: u64) -> Option<u64> {
        let offset = sector.checked_mul(SECTOR)?;
        let fits = offset.checked_add(len)? <= self.disk.len();
        (fits && len.is_multiple_of(SECTOR) && len <= MAX_DATA).then_some(offset)
    }

    fn read(
        &self,
        chain: &Chain,
        ram: &GuestRam,
        sector: u64,
        len: u64,
    ) -> Result<(u32, u64), DeviceError> {
        let Some(offset) = self.offset(sector, len) else {
            return Ok((spec::VIRTIO_BLK_S_IOERR, 0));
        };
        let mut bytes = vec![0; len as usize];
        self.disk.read(offset, &mut bytes)?;
        let done = chain.write(ram, 0, &bytes).is_some();
        Ok(if done {
            (spec::VIRTIO_BLK_S_OK, len)
        } else {
            (spec::VIRTIO_BLK_S_IOERR, 0)
        })
    }

    fn write(
        &mut self,
        chain: &Chain,
        ram: &GuestRam,
        sector: u64,
        len: u64,
    ) -> Result<(u32, u64), DeviceError> {
        let offset = self.offset(sector, len).filter(|_| self.disk.is_writable());
        let Some(offset) = offset else {
            return Ok((spec::VIRTIO_BLK_S_IOERR, 0));
        };
        let Some(bytes) = chain.read(ram, HEADER..HEADER + len) else {
            return Ok((spec::VIRTIO_BLK_S_IOERR, 0));
        };
        self.disk.write(offset, &bytes)?;
        Ok((spec::VIRTIO_BLK_S_OK, 0))
    }
}

impl Device for Block {
    const KIND: u32 = 2;
    const QUEUES: &'static [u16] = &[256];

    type State = BlockState;

    fn save(&self) -> BlockState {
        BlockState {
            bytes: self.disk.len(),
            written: self.disk.written(),
            under_way: self.under_way.clone().into(),
            completed: self.completed,
        }
    }

    fn load(&mut self, saved: BlockState, live: bool, ram: &GuestRam) -> Option<()> {
        let sound = |chain: &Chain| {
            chain.fits(ram) && chain.readable_len() >= HEADER && chain.writable_len() > 0
        };
        let sound = saved.under_way.iter().all(|(_, chain)| sound(chain));
        if !sound || (live && saved.bytes != self.disk.len()) {
            return None;
        }
        self.disk.set_written(saved.written)?;
        self.under_way = saved.under_way.into();
        self.completed = saved.completed;
        Some(())
    }

    fn features(&self) -> u64 {
        let read_only = if self.disk.is_writable() {
            0
        } else {
            1 << spec::VIRTIO_BLK_F_RO
        };
        read_only
            | 1 << spec::VIRTIO_BLK_F_SIZE_MAX
            | 1 << spec::VIRTIO_BLK_F_SEG_MAX
            | 1 << spec::VIRTIO_BLK_F_FLUSH
    }

    fn config(&self) -> Vec<u8> {
        let mut config = Vec::with_capacity(16);
        config.extend_from_slice(&(self.disk.len() / SECTOR).to_le_bytes());
        config.extend_from_slice(&MAX_SEGMENT_BYTES.to_le_bytes());
        config.extend_from_slice(&MAX_SEGMENTS.to_le_bytes());
        config
    }

    fn notify(
        &mut self,
        _queue: usize,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        now: Cycles,
    ) -> Result<(), DeviceError> {
        let Some(queue) = queues.first_mut() else {
            return Ok(());
        };
        let due = now.saturating_add(self.latency);
        while let Some(chain) = queue.pop(ram)? {
            if self.under_way.len() >= usize::from(queue.size()) {
                return Err(QueueError::Overrun.into());
            }
            let head = chain.head();
            if chain.readable_len() < HEADER || chain.writable_len() == 0 {
                let expected = "a block request with a header and a status byte";
                return Err(QueueError::Shape { head, expected }.into());
            }
            self.under_way.push_back((due, chain));
        }
        self.advance(queues, ram, now)
    }

    fn deadline(&self) -> Option<Cycles> {
        self.under_way.front().map(|(due, _)| *due)
    }

    fn advance(
        &mut self,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        now: Cycles,
    ) -> Result<(), DeviceError> {
        let Some(queue) = queues.first_mut() else {
            return Ok(());
        };
        while let Some((_, chain)) = self.under_way.pop_front_if(|(due, _)| *due <= now) {
            let (status, written) = self.execute(&chain, ram)?;
            let status_at = chain.writable_len() - 1;
            let head = chain.head();
            let expected = "a block request with its status byte in RAM";
            chain
                .write(ram, status_at, &[status as u8])
                .ok_or(QueueError::Shape { head, expected })?;
            // A failed read has written no data, only the status after the data buffer.
            queue.finish(ram, &chain, (written + 1) as u32)?;
            self.completed += 1;
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.under_way.clear();
    }
}

#[cfg(test)]
mod tests;
