//! Masked accesses that missed the TLB.
//!
//! A masked-out byte is neither read nor written and raises no fault; a store is checked on all of
//! its bytes before the first changes. `access` calls this for instructions with a
//! [`masked`](crate::memory::masked) operand.

use belljar_cpu::PAGE_SIZE;
use iced_x86::Instruction;

use super::{Opened, Stop};
use crate::memory::lines::Payment;
use crate::memory::masked::touched_bytes;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

impl ExactVcpu {
    /// Opens the masked access of `instruction` to the `bytes` bytes at `linear`. Only selected
    /// pages are checked, and only selected bytes are read.
    pub(super) fn open_masked(
        &mut self,
        instruction: &Instruction,
        linear: u64,
        bytes: usize,
        write: bool,
        payment: Payment,
    ) -> Result<Opened, Stop> {
        let touched = touched_bytes(instruction, &self.context);
        let in_one_page = linear % PAGE_SIZE + bytes as u64 <= PAGE_SIZE;
        if touched != 0 && in_one_page {
            let user = self.state.is_user();
            let first = linear.wrapping_add(u64::from(touched.trailing_zeros()));
            self.data_address(first, write, user)?;
            return self.open_access(linear, bytes, write, payment);
        }
        if let Payment::IfCovered(_) = payment {
            // Too rare to justify adding up the costs of all runs of bytes.
            return Ok(Opened::NotCovered);
        }
        let mut data = [0u8; 64];
        for run in runs(touched) {
            // A store is checked as a whole before its first byte.
            let user = self.state.is_user();
            let at = linear.wrapping_add(run.start as u64);
            let pieces = self.pieces(at, run.len(), write, user)?;
            self.pay(payment, &pieces, (at, write));
            self.read_pieces(&pieces, &mut data[run], !write)?;
        }
        self.bounce_slice(linear, bytes)
            .copy_from_slice(&data[..bytes]);
        Ok(Opened::Bounced)
    }

    /// Writes the selected bytes of a masked store from the bounce buffer to their real address.
    pub(super) fn commit_masked(
        &mut self,
        instruction: &Instruction,
        linear: u64,
        data: &[u8],
    ) -> Result<(), Fault> {
        let touched = touched_bytes(instruction, &self.context);
        let user = self.state.is_user();
        for run in runs(touched) {
            let at = linear.wrapping_add(run.start as u64);
            self.write_past_caches(at, &data[run], user)?;
        }
        Ok(())
    }
}

/// Runs of consecutive ones.
fn runs(bits: u64) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bits.checked_shr(at).unwrap_or(0);
        if rest == 0 {
            return None;
        }
        let start = at + rest.trailing_zeros();
        let length = (bits >> start).trailing_ones();
        at = start + length;
        Some(start as usize..at as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn runs_are_found_up_to_the_last_bit() {
        let all = |bits| runs(bits).collect::<Vec<_>>();
        assert_eq!(all(0), Vec::<std::ops::Range<usize>>::new());
        assert_eq!(all(u64::MAX), vec![0..64]);
        assert_eq!(all(0b1011_0001), vec![0..1, 4..6, 7..8]);
        assert_eq!(all(1 << 63 | 1), vec![0..1, 63..64]);
    }
}
