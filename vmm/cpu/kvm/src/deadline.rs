//! Whether a guest's TSC deadlines come to us: found out once.
//!
//! Guests that boot under this engine are told of none. One that the other engine booted, and
//! that goes on here, may set its timer so.

use std::sync::{Arc, OnceLock};

use belljar_cpu::{CpuError, Exit, Vcpu};

use crate::bare;
use crate::clock::Costs;
use crate::host::Host;
use crate::means::Means;

const TSC_DEADLINE: u32 = 0x6e0;
/// Nanoseconds in which the trial guest must get to an exit.
const PATIENCE: u64 = 500_000_000;
/// `mov ecx, TSC_DEADLINE; xor eax, eax; cdq; wrmsr; out 0x80, al`.
const PROGRAM: [u8; 12] = [
    0xb9, 0xe0, 0x06, 0, 0, 0x31, 0xc0, 0x99, 0x0f, 0x30, 0xe6, 0x80,
];

impl Host {
    /// Whether KVM hands on what a guest writes to `IA32_TSC_DEADLINE`, as its filter says.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn tells_deadlines(self: &Arc<Self>, means: Means) -> Result<bool, CpuError> {
        static KNOWN: OnceLock<bool> = OnceLock::new();
        if let Some(&known) = KNOWN.get() {
            return Ok(known);
        }
        let mut vcpu = bare::processor(self, &PROGRAM, means, Costs::default())?;
        let exit = vcpu.run(vcpu.clock.cycles(PATIENCE))?;
        let told = is_told(exit).ok_or_else(|| {
            CpuError::Unusable(format!("a guest that sets a deadline ended with {exit:?}"))
        })?;
        Ok(*KNOWN.get_or_init(|| told))
    }
}

/// What the trial guest's first exit says; `None` for one that it has no part in.
fn is_told(exit: Exit) -> Option<bool> {
    match exit {
        Exit::MsrWrite {
            index: TSC_DEADLINE,
            ..
        } => Some(true),
        Exit::PioWrite { .. } => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_does_not_come_is_swallowed() {
        let write = |index| Exit::MsrWrite { index, value: 0 };
        assert_eq!(is_told(write(TSC_DEADLINE)), Some(true));
        assert_eq!(is_told(write(0x830)), None);
        let behind = Exit::PioWrite {
            port: 0x80,
            len: 1,
            data: 0,
        };
        assert_eq!(is_told(behind), Some(false));
        assert_eq!(is_told(Exit::Halt), None);
    }
}
