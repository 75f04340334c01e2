//! The classes of micro-operations, and the groups of ports that execute them.
//!
//! A class has the same latency, port group and number of micro-operations for all its instructions; a processor's
//! file has the numbers. `uops` finds an instruction's class, `schedule` uses the ports.

/// Declares an enumeration with names in processor files.
macro_rules! named {
    ($(#[$meta:meta])* $type:ident { $($variant:ident $name:literal $doc:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type { $(#[doc = $doc] $variant,)* }

        impl $type {
            /// All values, in the order of their discriminants.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name in processor files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The value called `name`.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}

named! {
    /// Groups of ports. The operations of some groups also use a place of a wider group; see
    /// [`wider`](PortGroup::wider).
    PortGroup {
        Alu "alu" "Arithmetic and logic units.";
        Branch "branch" "Branch units.";
        Shift "shift" "Shifters.";
        Lea "lea" "Address units of LEA.";
        Multiply "multiply" "Integer multipliers.";
        Divide "divide" "Integer dividers.";
        Load "load" "Loads of any width.";
        VectorLoad "vector-load" "Loads into vector registers.";
        Store "store" "Stores.";
        Vector "vector" "Vector units.";
        VectorShuffle "vector-shuffle" "Vector units that shift and shuffle.";
        VectorMultiply "vector-multiply" "Vector units that multiply integers.";
        FpAdd "fp-add" "Floating-point adders.";
        FpMultiply "fp-multiply" "Floating-point multipliers.";
        FpDivide "fp-divide" "Floating-point dividers.";
        Convert "convert" "Vector units that convert.";
        Transfer "transfer" "Paths between general and vector registers.";
    }
}

impl PortGroup {
    /// A second group, whose ports the operation also occupies.
    pub fn wider(self) -> Option<Self> {
        match self {
            Self::Branch | Self::Shift | Self::Lea | Self::Multiply | Self::Divide => {
                Some(Self::Alu)
            }
            Self::VectorShuffle
            | Self::VectorMultiply
            | Self::FpAdd
            | Self::FpMultiply
            | Self::FpDivide
            | Self::Convert => Some(Self::Vector),
            Self::VectorLoad => Some(Self::Load),
            Self::Alu | Self::Load | Self::Store | Self::Vector | Self::Transfer => None,
        }
    }
}

named! {
    /// Classes of micro-operations. Loads and stores are separate: their costs are those of memory.
    UopClass {
        Nop "nop" "Instructions without an operation: NOP, ENDBR64, prefetches.";
        Alu "alu" "Moves, arithmetic and logic on general registers.";
        Select "select" "Conditional moves by a condition of several flags: less, greater, above and their opposites.";
        Lea "lea" "LEA with a scaled index and another term.";
        Shift "shift" "Shifts, rotations and counts of bits.";
        Multiply "multiply" "Integer multiplication with a result of one register; PDEP and PEXT.";
        MultiplyWide "multiply-wide" "Integer multiplication with a result of two registers.";
        Divide "divide" "Integer division.";
        Branch "branch" "Jumps, calls and returns.";
        Crc "crc32" "CRC32.";
        FpAdd "fp-add" "Floating-point additions, minima and maxima.";
        FpMultiply "fp-multiply" "Floating-point multiplications.";
        FpFma "fp-fma" "Fused multiplications and additions.";
        FpDivideSingle "fp-divide-single" "Divisions of single precision.";
        FpDivideDouble "fp-divide-double" "Divisions of double precision.";
        FpRootSingle "fp-root-single" "Square roots of single precision.";
        FpRootDouble "fp-root-double" "Square roots of double precision.";
        FpEstimate "fp-estimate" "Estimates of reciprocals and of their roots.";
        FpCompare "fp-compare" "Comparisons with a vector as their result.";
        FpFlags "fp-flags" "Comparisons with flags as their result.";
        VectorLogic "vector-logic" "Logic and moves of vectors.";
        VectorInteger "vector-integer" "Additions and comparisons of packed integers.";
        VectorShift "vector-shift" "Shifts of packed integers.";
        VectorShuffle "vector-shuffle" "Shuffles, packs, inserts and extracts within vectors.";
        VectorMultiply "vector-multiply" "Multiplications of packed integers.";
        Mask "mask" "Operations on mask registers.";
        Convert "convert" "Conversions between vectors.";
        IntegerToFp "integer-to-fp" "Conversions of general registers to floating point.";
        FpToInteger "fp-to-integer" "Conversions of floating point to general registers.";
        ToVector "to-vector" "Moves from general to vector registers.";
        FromVector "from-vector" "Moves from vector registers to general ones or flags.";
        Crypto "crypto" "AES, SHA, carry-less multiplication, Galois fields.";
        Gather "gather" "Gathers and scatters.";
        X87 "x87" "The x87's additions, multiplications and moves.";
        X87Divide "x87-divide" "The x87's divisions and square roots.";
        Transcendental "transcendental" "The x87's sines, logarithms and similar functions.";
        Text "string" "The start of a string instruction.";
        Atomic "atomic" "Read-modify-write under LOCK, and XCHG with memory.";
        Fence "fence" "Fences and PAUSE.";
        System "system" "System calls and registers, far transfers, CPUID, saving of state.";
    }
}

impl UopClass {
    /// The ports that execute it; `None` without an operation.
    pub fn ports(self) -> Option<PortGroup> {
        Some(match self {
            Self::Nop => return None,
            Self::Alu | Self::Select | Self::Text | Self::Atomic | Self::Fence | Self::System => {
                PortGroup::Alu
            }
            Self::Shift => PortGroup::Shift,
            Self::Lea => PortGroup::Lea,
            Self::Multiply | Self::MultiplyWide | Self::Crc => PortGroup::Multiply,
            Self::Divide => PortGroup::Divide,
            Self::Branch => PortGroup::Branch,
            Self::FpAdd | Self::FpCompare | Self::FpFlags | Self::X87 => PortGroup::FpAdd,
            Self::FpMultiply | Self::FpFma | Self::FpEstimate => PortGroup::FpMultiply,
            Self::FpDivideSingle
            | Self::FpDivideDouble
            | Self::FpRootSingle
            | Self::FpRootDouble
            | Self::X87Divide
            | Self::Transcendental => PortGroup::FpDivide,
            Self::VectorLogic | Self::VectorInteger => PortGroup::Vector,
            Self::VectorShift | Self::VectorShuffle | Self::Mask | Self::Gather => {
                PortGroup::VectorShuffle
            }
            Self::VectorMultiply | Self::Crypto => PortGroup::VectorMultiply,
            Self::Convert => PortGroup::Convert,
            Self::IntegerToFp | Self::FpToInteger | Self::ToVector | Self::FromVector => {
                PortGroup::Transfer
            }
        })
    }

    /// True if it waits for all earlier instructions, and later ones for it.
    pub fn serialises(self) -> bool {
        matches!(self, Self::System)
    }
}
