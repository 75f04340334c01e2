//! The classes into which a time model sorts instructions: names, meaning and default costs.
//!
//! `classes` finds an instruction's class, `timing` has a scenario's costs for them.

/// Declares the classes: variant, name in scenarios, default in ticks, description.
macro_rules! classes {
    ($($variant:ident $name:literal $ticks:literal $doc:literal;)*) => {
        /// Classes of instructions with the same cost, and surcharges of accesses to memory.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum CostClass { $(#[doc = $doc] $variant,)* }

        /// The number of classes.
        pub(crate) const COST_CLASSES: usize = CostClass::ALL.len();

        impl CostClass {
            /// All classes.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name in scenarios.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The default cost in ticks: the reciprocal throughput of common members of the class
            /// on Intel Skylake, rounded, after A. Fog, "Instruction tables"
            /// (agner.org/optimize/instruction_tables.pdf).
            pub fn default_ticks(self) -> u32 {
                match self { $(Self::$variant => $ticks,)* }
            }
        }
    };
}

classes! {
    Integer "integer" 250 "Moves, arithmetic, logic and shifts on general registers.";
    Multiply "multiply" 1000 "Integer multiplication.";
    Divide "divide" 20000 "Integer division.";
    Branch "branch" 1000 "Jumps, calls and returns.";
    Fp "fp" 500 "Scalar floating point, the x87's too.";
    FpDivide "fp-divide" 4000 "Scalar floating-point division and square root.";
    VectorInteger "vector-integer" 333 "Packed integers; moves, logic and shuffles of vectors and masks.";
    VectorFp "vector-fp" 500 "Packed floating point.";
    VectorFpDivide "vector-fp-divide" 5000 "Packed floating-point division and square root.";
    Crypto "crypto" 1000 "AES, SHA, carry-less multiplication, CRC32.";
    Transcendental "transcendental" 60000 "The x87's sines, logarithms and their like.";
    String "string" 1000 "String instructions: each element, or each 64 bytes of REP MOVS and REP STOS.";
    Atomic "atomic" 18000 "Read-modify-write under LOCK, XCHG with memory, fences.";
    System "system" 60000 "System calls and registers, far transfers, CPUID, saving of state.";
    Load "load" 500 "Added for each operand in memory that is read.";
    Store "store" 1000 "Added for each operand in memory that is written.";
}

impl CostClass {
    /// True if it is added to another class' cost.
    pub fn is_surcharge(self) -> bool {
        matches!(self, Self::Load | Self::Store)
    }
}
