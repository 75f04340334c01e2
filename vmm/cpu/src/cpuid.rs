//! What CPUID answers.
//!
//! A table does not change while the guest runs; what depends on the guest's state, engines put
//! into the answer. `belljar-vmm` makes one for each processor of a node.

/// One leaf, or one subleaf of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuidEntry {
    /// EAX at the instruction.
    pub leaf: u32,
    /// ECX at the instruction; `None` where the leaf ignores it.
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

/// All that CPUID answers. Leaves that are not listed read as zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuidTable {
    /// The leaves, in any order; the first match answers.
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
