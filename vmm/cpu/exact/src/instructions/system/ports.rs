//! Permissions for I/O ports (Intel SDM, volume 1, 19.5).
//!
//! Code without privilege by IOPL may only use ports that the bitmap of the task-state segment
//! permits. Called before each access to a port.

use belljar_cpu::SegmentRegister;

use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// Offset of the I/O permission bitmap's base in a task-state segment of 32 or 64 bits.
const BITMAP_BASE: u64 = 0x66;
/// A bit of the segment's type that is clear for a 16-bit task-state segment, which has no bitmap.
const WIDE: u16 = 8;

impl ExactVcpu {
    /// #GP(0) unless IOPL or the task's I/O permission bitmap allows the `len` ports from
    /// `port` on.
    pub(super) fn require_ports(&mut self, port: u16, len: u8) -> Result<(), Fault> {
        if self.require_io_level().is_ok() || self.bitmap_allows(port, len)? {
            Ok(())
        } else {
            Err(Fault::protection(0))
        }
    }

    /// True if the bits of all these ports are clear. It always reads two bytes, and both must lie
    /// within the segment's limit.
    fn bitmap_allows(&mut self, port: u16, len: u8) -> Result<bool, Fault> {
        let task = *self.state.segment(SegmentRegister::Tr);
        let limit = u64::from(task.limit);
        if task.attributes & WIDE == 0 || BITMAP_BASE + 1 > limit {
            return Ok(false);
        }
        let base = self.task_word(task.base, BITMAP_BASE)?;
        let at = u64::from(base) + u64::from(port / 8);
        if at + 1 > limit {
            return Ok(false);
        }
        let bits = self.task_word(task.base, at)? >> (port % 8);
        Ok(bits & ((1 << len) - 1) == 0)
    }

    /// Reads two bytes of the task-state segment.
    fn task_word(&mut self, base: u64, offset: u64) -> Result<u16, Fault> {
        let mut bytes = [0; 2];
        let linear = if self.state.is_long_active() {
            base.wrapping_add(offset)
        } else {
            base.wrapping_add(offset) & 0xffff_ffff
        };
        self.system_read(linear, &mut bytes)?;
        Ok(u16::from_le_bytes(bytes))
    }
}
