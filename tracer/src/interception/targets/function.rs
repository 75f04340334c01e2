//! Functions of ELF files by name, for the user's probes.
//!
//! Both symbol tables are searched, if the file has them. A name may have several addresses, of versions of a function
//! or of static functions of several sources. Used where a plan is created. Files are untrusted, and invalid parts are
//! ignored.

use std::collections::BTreeSet;

use object::Endianness;
use object::elf::{self, SHN_UNDEF};
use object::read::ReadRef;
use object::read::elf::{FileHeader, Sym};

use super::elf::Elf;

/// Most names that an error lists.
const MOST_NAMES: usize = 5;

/// Most symbols of a file that are searched.
const MOST_SYMBOLS: usize = 1 << 24;

/// Most addresses of one name.
const MOST_PLACES: usize = 64;

/// An error in finding a probe's location in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    /// It is not a file with code.
    #[error("is no 64-bit ELF file for x86-64")]
    NotCode,
    /// No symbol of that name.
    #[error("has no function `{name}`{}; `nm -D` and `nm` list what it has, and address = \"0x...\" needs no name", alike(.near))]
    Unknown {
        /// The requested name.
        name: String,
        /// Similar names of functions.
        near: Vec<String>,
    },
    /// The symbol stands for a function that is chosen when the program starts.
    #[error(
        "has `{0}` in several versions, one of which is chosen when a program starts; give the address of one instead"
    )]
    Indirect(String),
    /// The name has too many addresses.
    #[error("has more than {MOST_PLACES} functions `{0}`; give the address of one instead")]
    TooMany(String),
    /// There is no code at the address.
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

/// Returns the addresses of the functions called `name` in the file with contents `data`, relative to the file.
///
/// # Errors
/// Returns [`FunctionError`].
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
        // Programs may call another one of several versions.
        _ if is_indirect => Err(FunctionError::Indirect(name.to_owned())),
        0 => Err(unknown(name, near)),
        1..=MOST_PLACES => Ok(places.into_iter().collect()),
        _ => Err(FunctionError::TooMany(name.to_owned())),
    }
}

/// Checks that the file with contents `data` has code at `address`.
///
/// # Errors
/// Returns [`FunctionError`].
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

/// Keeps the shortest names that contain the requested name, are contained in it, or have the same letters.
fn note_near(near: &mut BTreeSet<(usize, String)>, found: &[u8], name: &str, kind: u8) {
    /// Longest name that is worth suggesting.
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

/// Returns its letters in order, which are the same for words with transposed letters.
fn sorted(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}
