//! Instruction sets of a guest's processor: a level of the x86-64 psABI, and extensions.
//!
//! An `InstructionSet` is consistent: each extension has the level and the extension that it
//! requires. Scenarios name it, the CPUID table reports it, and an engine refuses hosts that cannot
//! execute it.

use std::fmt;
use std::str::FromStr;

/// An output register of CPUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuidRegister {
    /// EAX.
    Eax = 0,
    /// EBX.
    Ebx = 1,
    /// ECX.
    Ecx = 2,
    /// EDX.
    Edx = 3,
}

/// The location of a feature bit in CPUID's answers (Intel SDM, volume 2, "CPUID").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuidBit {
    /// EAX at the instruction.
    pub leaf: u32,
    /// ECX at the instruction.
    pub subleaf: u32,
    /// The register that contains the bit.
    pub register: CpuidRegister,
    /// The bit's number in that register.
    pub bit: u32,
}

macro_rules! features {
    ($($variant:ident $name:literal $leaf:literal $subleaf:literal $register:ident $bit:literal;)*) => {
        /// A feature of user-level code that not every x86-64 processor has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)] // each variant is the feature of that name
        pub enum Feature { $($variant,)* }

        impl Feature {
            /// All features.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in scenarios and messages.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its bit in CPUID's answers.
            pub fn cpuid(self) -> CpuidBit {
                match self {
                    $(Self::$variant => CpuidBit {
                        leaf: $leaf,
                        subleaf: $subleaf,
                        register: CpuidRegister::$register,
                        bit: $bit,
                    },)*
                }
            }
        }
    };
}

features! {
    Sse3 "sse3" 1 0 Ecx 0;
    Ssse3 "ssse3" 1 0 Ecx 9;
    Cmpxchg16b "cmpxchg16b" 1 0 Ecx 13;
    Sse41 "sse4.1" 1 0 Ecx 19;
    Sse42 "sse4.2" 1 0 Ecx 20;
    Popcnt "popcnt" 1 0 Ecx 23;
    Lahf "lahf" 0x8000_0001 0 Ecx 0;
    Fma "fma" 1 0 Ecx 12;
    Movbe "movbe" 1 0 Ecx 22;
    Xsave "xsave" 1 0 Ecx 26;
    Avx "avx" 1 0 Ecx 28;
    F16c "f16c" 1 0 Ecx 29;
    Bmi1 "bmi1" 7 0 Ebx 3;
    Avx2 "avx2" 7 0 Ebx 5;
    Bmi2 "bmi2" 7 0 Ebx 8;
    Lzcnt "lzcnt" 0x8000_0001 0 Ecx 5;
    Xsaveopt "xsaveopt" 0xd 1 Eax 0;
    Xsavec "xsavec" 0xd 1 Eax 1;
    Avx512f "avx512f" 7 0 Ebx 16;
    Avx512dq "avx512dq" 7 0 Ebx 17;
    Avx512cd "avx512cd" 7 0 Ebx 28;
    Avx512bw "avx512bw" 7 0 Ebx 30;
    Avx512vl "avx512vl" 7 0 Ebx 31;
    Aes "aes" 1 0 Ecx 25;
    Pclmulqdq "pclmulqdq" 1 0 Ecx 1;
    Sha "sha" 7 0 Ebx 29;
    Adx "adx" 7 0 Ebx 19;
    Gfni "gfni" 7 0 Ecx 8;
    Vaes "vaes" 7 0 Ecx 9;
    Vpclmulqdq "vpclmulqdq" 7 0 Ecx 10;
    Avx512ifma "avx512ifma" 7 0 Ebx 21;
    Avx512vbmi "avx512vbmi" 7 0 Ecx 1;
    Avx512vbmi2 "avx512vbmi2" 7 0 Ecx 6;
    Avx512vnni "avx512vnni" 7 0 Ecx 11;
    Avx512bitalg "avx512bitalg" 7 0 Ecx 12;
    Avx512vpopcntdq "avx512vpopcntdq" 7 0 Ecx 14;
}

use Feature as F;

const LEVEL_2: &[F] = &[
    F::Sse3,
    F::Ssse3,
    F::Cmpxchg16b,
    F::Sse41,
    F::Sse42,
    F::Popcnt,
    F::Lahf,
];
/// XSAVEOPT and XSAVEC are not part of the level, but every processor of this level has XSAVEOPT,
/// and the engine implements both in software.
const LEVEL_3: &[F] = &[
    F::Fma,
    F::Movbe,
    F::Xsave,
    F::Avx,
    F::F16c,
    F::Bmi1,
    F::Avx2,
    F::Bmi2,
    F::Lzcnt,
    F::Xsaveopt,
    F::Xsavec,
];
const LEVEL_4: &[F] = &[
    F::Avx512f,
    F::Avx512dq,
    F::Avx512cd,
    F::Avx512bw,
    F::Avx512vl,
];

/// Extensions that a scenario may add to a level: each with its least level and the extension it
/// requires.
const EXTENSIONS: &[(F, Level, Option<F>)] = &[
    (F::Aes, Level::V2, None),
    (F::Pclmulqdq, Level::V2, None),
    (F::Sha, Level::V2, None),
    (F::Adx, Level::V1, None),
    (F::Gfni, Level::V2, None),
    (F::Vaes, Level::V3, Some(F::Aes)),
    (F::Vpclmulqdq, Level::V3, Some(F::Pclmulqdq)),
    (F::Avx512ifma, Level::V4, None),
    (F::Avx512vbmi, Level::V4, None),
    (F::Avx512vbmi2, Level::V4, None),
    (F::Avx512vnni, Level::V4, None),
    (F::Avx512bitalg, Level::V4, None),
    (F::Avx512vpopcntdq, Level::V4, None),
];

/// A microarchitecture level of the x86-64 psABI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// SSE2.
    V1,
    /// SSE4.2, POPCNT, CMPXCHG16B.
    #[default]
    V2,
    /// AVX2, FMA, BMI2.
    V3,
    /// AVX-512 F, BW, CD, DQ, VL.
    V4,
}

impl Level {
    /// All levels, ascending.
    pub const ALL: [Self; 4] = [Self::V1, Self::V2, Self::V3, Self::V4];

    /// The name in scenarios, as in the psABI.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "x86-64-v1",
            Self::V2 => "x86-64-v2",
            Self::V3 => "x86-64-v3",
            Self::V4 => "x86-64-v4",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = IsaError;

    fn from_str(text: &str) -> Result<Self, IsaError> {
        Self::ALL
            .into_iter()
            .find(|level| level.name() == text)
            .ok_or_else(|| IsaError::Level(text.to_owned()))
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Errors of an instruction set's description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsaError {
    /// The level does not exist.
    #[error("`{0}` is not a level; use x86-64-v1, x86-64-v2, x86-64-v3 or x86-64-v4")]
    Level(String),
    /// The extension does not exist.
    #[error("`{0}` is not an extension; extensions are {list}", list = extension_names())]
    Extension(String),
    /// An extension requires a higher level.
    #[error("extension `{extension}` needs level {needed} or higher, and the level is {level}")]
    Below {
        /// The extension.
        extension: Feature,
        /// The least level that it requires.
        needed: Level,
        /// The level given.
        level: Level,
    },
    /// An extension lacks the one that it extends.
    #[error("extension `{extension}` needs extension `{needed}`; name both")]
    Without {
        /// The extension.
        extension: Feature,
        /// The missing extension.
        needed: Feature,
    },
}

fn extension_names() -> String {
    let names: Vec<&str> = EXTENSIONS.iter().map(|(known, ..)| known.name()).collect();
    names.join(", ")
}

/// The instructions that a guest's processor has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionSet {
    level: Level,
    extensions: Vec<Feature>,
}

impl InstructionSet {
    /// Builds the set of a level with named extensions.
    ///
    /// # Errors
    /// [`IsaError`] names an extension that is unknown or incompatible with the level.
    pub fn new<'a>(
        level: Level,
        extensions: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, IsaError> {
        let mut found = Vec::new();
        for name in extensions {
            let &(extension, needed, _) = EXTENSIONS
                .iter()
                .find(|(known, ..)| known.name() == name)
                .ok_or_else(|| IsaError::Extension(name.to_owned()))?;
            if level < needed {
                return Err(IsaError::Below {
                    extension,
                    needed,
                    level,
                });
            }
            found.push(extension);
        }
        for &(extension, _, needed) in EXTENSIONS {
            if let Some(needed) = needed
                && found.contains(&extension)
                && !found.contains(&needed)
            {
                return Err(IsaError::Without { extension, needed });
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(Self {
            level,
            extensions: found,
        })
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The extensions beyond the level, each once, in a fixed order.
    pub fn extensions(&self) -> &[Feature] {
        &self.extensions
    }

    /// All features beyond [`Level::V1`].
    pub fn features(&self) -> impl Iterator<Item = Feature> {
        let levels = [
            (Level::V2, LEVEL_2),
            (Level::V3, LEVEL_3),
            (Level::V4, LEVEL_4),
        ];
        levels
            .into_iter()
            .filter(|(level, _)| *level <= self.level)
            .flat_map(|(_, features)| features)
            .chain(&self.extensions)
            .copied()
    }

    /// True if the processor has `feature`.
    pub fn has(&self, feature: Feature) -> bool {
        self.features().any(|known| known == feature)
    }

    /// The bits that XCR0 may have; zero without XSAVE.
    pub fn state_components(&self) -> u64 {
        match self.level {
            Level::V1 | Level::V2 => 0,
            Level::V3 => 0b111,
            Level::V4 => 0b1110_0111,
        }
    }
}

impl From<Level> for InstructionSet {
    fn from(level: Level) -> Self {
        Self {
            level,
            extensions: Vec::new(),
        }
    }
}

/// As in scenarios: the level, then `+` and the name of each extension.
impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        self.extensions
            .iter()
            .try_for_each(|extension| write!(f, "+{extension}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_checked_by_name_and_level() {
        let set = InstructionSet::new(Level::V3, ["vaes", "aes", "aes"]).unwrap();
        assert_eq!(set.to_string(), "x86-64-v3+aes+vaes");
        assert!(set.has(Feature::Avx2) && set.has(Feature::Aes));
        assert!(!set.has(Feature::Avx512f));
        let refused = |level, names: &[&str]| {
            InstructionSet::new(level, names.iter().copied())
                .unwrap_err()
                .to_string()
        };
        assert!(refused(Level::V2, &["3dnow"]).contains("pclmulqdq, sha"));
        assert!(refused(Level::V3, &["avx512vnni"]).contains("x86-64-v4"));
        assert!(refused(Level::V3, &["vaes"]).contains("`aes`"));
    }

    #[test]
    fn levels_contain_each_other() {
        let mut last = 0;
        for level in Level::ALL {
            let count = InstructionSet::from(level).features().count();
            assert!(level == Level::V1 || count > last);
            last = count;
            assert_eq!(level.name().parse(), Ok(level));
        }
        assert!("x86-64-v5".parse::<Level>().is_err());
    }
}
