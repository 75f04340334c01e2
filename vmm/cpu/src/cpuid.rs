//! The answers of CPUID.
//!
//! A table does not change while the guest runs; engines insert the bits that depend on the guest's
//! state. `belljar-vmm` builds one for each processor of a node.

/// The answer for a leaf or a subleaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuidEntry {
    /// EAX at the instruction.
    pub leaf: u32,
    /// ECX at the instruction; `None` if the leaf ignores it.
    pub subleaf: Option<u32>,
    /// EAX after it.
    pub eax: u32,
    /// EBX after it.
    pub ebx: u32,
    /// ECX after it.
    pub ecx: u32,
    /// EDX after it.
    pub edx: u32,
}

/// All answers of CPUID. Unlisted leaves read as zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuidTable {
    /// The leaves, in any order; the first match counts.
    pub entries: Vec<CpuidEntry>,
}

impl CpuidTable {
    /// EAX, EBX, ECX and EDX for a leaf and subleaf.
    pub fn answer(&self, leaf: u32, subleaf: u32) -> [u32; 4] {
        self.entries
            .iter()
            .find(|entry| {
                entry.leaf == leaf && entry.subleaf.is_none_or(|wanted| wanted == subleaf)
            })
            .map_or([0; 4], |entry| [entry.eax, entry.ebx, entry.ecx, entry.edx])
    }
}
