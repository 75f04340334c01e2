//! Return prediction: the expected target of the return at the end of a trace is the present return
//! address.
//!
//! A host predicts a jump through a table worse than a comparison, and the target block must check its
//! RIP. As with all hot code, this only affects speed.

use belljar_cpu::{Access, PAGE_SIZE, Vcpu};
use belljar_translate::guest::analyse::InstructionClass;
use belljar_translate::guest::decode::{Follow, GuestBlock};
use belljar_translate::guest::mode::Mode;
use belljar_translate::guest::symbols::analyse;

use crate::processor::vcpu::ExactVcpu;

/// RSP's number, which is also the number of its initial symbol.
const RSP: usize = 4;

impl ExactVcpu {
    /// Makes `trace`, at whose beginning the guest is, compare its return address with the present one
    /// on the stack, if that is in the trace's page.
    pub(crate) fn predict_return(&self, trace: &mut GuestBlock, mode: Mode) {
        let run = &trace.instructions;
        if run
            .last()
            .is_none_or(|last| last.class != InstructionClass::Ret)
        {
            return;
        }
        let symbols = analyse(run.iter().map(|guest| (&guest.instruction, guest.class)));
        let top = symbols.before.last().map(|registers| registers[RSP]);
        let Some(top) = top.filter(|top| top.symbol == RSP as u32) else {
            return;
        };
        let at = self.context.gpr[RSP].wrapping_add_signed(top.offset);
        let origin = self.origin_of(mode.relative);
        let expected = self.glance(at).map(|to| to.wrapping_sub(origin));
        if let Some(expected) = expected.filter(|&to| to / PAGE_SIZE == trace.rip / PAGE_SIZE)
            && let Some(last) = trace.instructions.last_mut()
        {
            last.follow = Follow::Predicted(expected);
        }
    }

    /// The 8 bytes of memory at `linear`, without side effects in the guest's tables. `None` if they
    /// are not mapped to RAM, or not in one page.
    fn glance(&self, linear: u64) -> Option<u64> {
        let physical = self.translate(linear, Access::Read)?;
        let mut bytes = [0; 8];
        let within = linear % PAGE_SIZE <= PAGE_SIZE - 8;
        (within && self.memory.read(physical, &mut bytes)).then(|| u64::from_le_bytes(bytes))
    }
}
