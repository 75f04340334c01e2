//! What processor the guest is told that it has, and which of its instructions are switched on.
//!
//! Made with the vCPU; `find` settles the features again whenever control registers change.

use belljar_cpu::{CpuidTable, InstructionSet};
use belljar_translate::guest::features::Features;

/// The guest's processor as it presents itself.
pub(crate) struct Identity {
    /// What CPUID answers.
    pub(crate) cpuid: CpuidTable,
    /// The instructions that run; all others raise #UD.
    pub(crate) instruction_set: InstructionSet,
    /// Those of them that the control registers allow now.
    pub(crate) features: Features,
    /// The number of `features` in the code store.
    pub(crate) features_number: u8,
}
