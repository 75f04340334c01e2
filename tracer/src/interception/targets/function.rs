//! Functions of ELF files by name, for probes of the user's.
//!
//! Both symbol tables are asked, as far as the file has them. A name may have several addresses: versions of a
//! function, or static functions of several sources. Called where a plan is made; files are hostile, and what does not
//! fit together in one is left out.

use std::collections::BTreeSet;

use object::Endianness;
use object::elf::{self, SHN_UNDEF};
use object::read::ReadRef;
use object::read::elf::{FileHeader, Sym};

use super::elf::Elf;

/// Names that an error tells, at most.
const MOST_NAMES: usize = 5;

/// Symbols of a file that are looked at, at most.
const MOST_SYMBOLS: usize = 1 << 24;

/// Most addresses that a name stands for.
const MOST_PLACES: usize = 64;

/// Why a file has no place for a probe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    /// It is something else.
    #[error("is no 64-bit ELF file for x86-64")]
    NotCode,
    /// No symbol of that name.
    #[error("has no function `{name}`{}; `nm -D` and `nm` list what it has, and address = \"0x...\" needs no name", alike(.near))]
    Unknown {
        /// What was looked for.
        name: String,
        /// Names of functions that are like it.
        near: Vec<String>,
    },
    /// The symbol stands for a function that is chosen when the program starts.
    #[error(
        "has `{0}` in several versions, one of which is chosen when a program starts; give the address of one instead"
    )]
    Indirect(String),
    /// The name stands for too much.
    #[error("has more than {MOST_PLACES} functions `{0}`; give the address of one instead")]
    TooMany(String),
    /// There is no code.
    #[error(
        "has no code at {0:#x}; an address is the file's own, as `nm` and `objdump -d` tell it"
    )]
    NoCode(u64),
}

fn alike(near: &[String]) -> String {
    match near {
        [] => String::new(),
        names => format!(", but {}", names.join(", ")),
    }
}

/// The addresses of the functions called `name` in the file that holds `data`, as the file has them.
///
/// # Errors
/// See [`FunctionError`].
pub fn functions_called<'data>(
    data: impl ReadRef<'data>,
    name: &str,
) -> Result<Vec<u64>, FunctionError> {
    let elf = Elf::parse(data).ok_or(FunctionError::NotCode)?;
    let header = elf::FileHeader64::<Endianness>::parse(data);
    let header = header.map_err(|_| FunctionError::NotCode)?;
    let endian = Endianness::Little;
    let sections = header.sections(endian, data);
    let sections = sections.map_err(|_| unknown(name, BTreeSet::new()))?;
    let (mut places, mut near) = (BTreeSet::new(), BTreeSet::new());
    let mut is_indirect = false;
    for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
        let Ok(symbols) = sections.symbols(endian, data, kind) else {
            continue;
        };
        for symbol in symbols.iter().take(MOST_SYMBOLS) {
            let Ok(found) = symbol.name(endian, symbols.strings()) else {
                continue;
            };
            let value = symbol.st_value(endian);
            let is_code = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_NOTYPE);
            if symbol.st_shndx(endian) == SHN_UNDEF {
                continue;
            }
            if found != name.as_bytes() {
                note_near(&mut near, found, name, symbol.st_type());
            } else if symbol.st_type() == elf::STT_GNU_IFUNC {
                is_indirect = true;
            } else if is_code && elf.page_of_code(value).is_some() {
                places.insert(value);
            }
        }
    }
    match places.len() {
        // Of several versions another one may be what programs call.
        _ if is_indirect => Err(FunctionError::Indirect(name.to_owned())),
        0 => Err(unknown(name, near)),
        1..=MOST_PLACES => Ok(places.into_iter().collect()),
        _ => Err(FunctionError::TooMany(name.to_owned())),
    }
}

/// Sees that the file that holds `data` has code at `address`.
///
/// # Errors
/// See [`FunctionError`].
pub fn check_code<'data>(data: impl ReadRef<'data>, address: u64) -> Result<(), FunctionError> {
    let elf = Elf::parse(data).ok_or(FunctionError::NotCode)?;
    let page = elf.page_of_code(address);
    page.map(drop).ok_or(FunctionError::NoCode(address))
}

fn unknown(name: &str, near: BTreeSet<(usize, String)>) -> FunctionError {
    let near = near.into_iter().map(|(_, name)| format!("`{name}`"));
    FunctionError::Unknown {
        name: name.to_owned(),
        near: near.collect(),
    }
}

/// Keeps the shortest names that contain what was looked for, or are contained in it, by the letters.
fn note_near(near: &mut BTreeSet<(usize, String)>, found: &[u8], name: &str, kind: u8) {
    /// Longest name that is of use to anybody.
    const LONGEST: usize = 200;
    if kind != elf::STT_FUNC || found.len() < 3 || found.len() > LONGEST {
        return;
    }
    let Ok(found) = std::str::from_utf8(found) else {
        return;
    };
    let letters = |name: &str| -> String {
        let letters = name.chars().filter(|letter| letter.is_alphanumeric());
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let (one, other) = (letters(found), letters(name));
    let is_near = !one.is_empty()
        && !other.is_empty()
        && (one.contains(&other) || other.contains(&one) || sorted(&one) == sorted(&other));
    if is_near {
        near.insert((found.len().abs_diff(name.len()), found.to_owned()));
        if near.len() > MOST_NAMES {
            near.pop_last();
        }
    }
}

/// Its letters in order: the same for words in which some have changed places.
fn sorted(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}
