//! The processor as the guest sees it, and its enabled instructions.
//!
//! Made with the vCPU; `find` updates the features whenever control registers change.

use belljar_cpu::{CpuidTable, InstructionSet};
use belljar_translate::guest::features::Features;

/// The guest's processor as the guest sees it.
pub(crate) struct Identity {
    /// The answers of CPUID.
    pub(crate) cpuid: CpuidTable,
    /// The available instructions; all others raise #UD.
    pub(crate) instruction_set: InstructionSet,
    /// The part of them that the control registers enable now.
    pub(crate) features: Features,
    /// The number of `features` in the code store.
    pub(crate) features_number: u8,
}
