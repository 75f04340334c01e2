//! BTF, the kernel's type information: members of structures, with their offsets.
//!
//! The format is described in the kernel's `Documentation/bpf/btf.rst`. Only structures and unions are
//! kept; other types are followed where a member's structure is nested. The file is untrusted.

use std::collections::BTreeMap;

const MAGIC: u16 = 0xeb9f;
/// Bytes of the fixed part of a header.
const HEADER: usize = 24;
/// Deepest nesting of anonymous structures and of type definitions.
const DEEPEST: usize = 16;

/// Errors of reading type information.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// It is not of this format, or truncated.
    #[error("the kernel's type information (BTF) is damaged at byte {0}")]
    Damaged(usize),
    /// A member is missing.
    #[error("the kernel's type information (BTF) has no member {member} of struct {name}")]
    Missing {
        /// The structure.
        name: String,
        /// The path of the member, with dots.
        member: String,
    },
}

/// A type, as far as it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// A structure or a union: names, types and bit offsets of its members.
    Struct(Vec<(u32, u32, u32)>),
    /// Another name of a type.
    Alias(u32),
    Other,
}

/// The structures of a kernel.
#[derive(Clone, Debug)]
pub struct Btf {
    /// By number, from 1.
    types: Vec<Kind>,
    by_name: BTreeMap<String, u32>,
    strings: Vec<u8>,
}

impl Btf {
    /// Reads the content of a section `.BTF`.
    ///
    /// # Errors
    /// [`BtfError::Damaged`].
    pub fn read(data: &[u8]) -> Result<Self, BtfError> {
        let header = |at| word(data, at).ok_or(BtfError::Damaged(at));
        if data.get(..2) != Some(&MAGIC.to_le_bytes()) {
            return Err(BtfError::Damaged(0));
        }
        let length = header(4)? as usize;
        let section = |offset_at: usize| {
            let start = length.checked_add(header(offset_at)? as usize);
            let end =
                start.and_then(|start| start.checked_add(word(data, offset_at + 4)? as usize));
            let range = start.zip(end).filter(|_| length >= HEADER);
            let bytes = range.and_then(|(start, end)| data.get(start..end));
            bytes.ok_or(BtfError::Damaged(offset_at))
        };
        let (types, strings) = (section(8)?, section(16)?);
        let mut btf = Self {
            types: Vec::new(),
            by_name: BTreeMap::new(),
            strings: strings.to_vec(),
        };
        let mut at = 0;
        while at < types.len() {
            at = btf.add(types, at).ok_or(BtfError::Damaged(at))?;
        }
        Ok(btf)
    }

    /// Adds the type at `at`, and returns the position of the next one.
    fn add(&mut self, types: &[u8], at: usize) -> Option<usize> {
        let (name, info) = (word(types, at)?, word(types, at + 4)?);
        let size_or_type = word(types, at + 8)?;
        let count = (info & 0xffff) as usize;
        let is_bitfield = info >> 31 != 0;
        let body = at + 12;
        let (kind, length) = match info >> 24 & 0x1f {
            // Integers, arrays, variables, tags with a position.
            1 => (Kind::Other, 4),
            3 => (Kind::Other, 12),
            4 | 5 => {
                let members = (0..count).map(|number| {
                    let at = body + 12 * number;
                    let offset = word(types, at + 8)?;
                    let bits = if is_bitfield {
                        offset & 0xff_ffff
                    } else {
                        offset
                    };
                    Some((word(types, at)?, word(types, at + 4)?, bits))
                });
                (Kind::Struct(members.collect::<Option<_>>()?), 12 * count)
            }
            6 => (Kind::Other, 8 * count),
            // Type definitions and qualifiers.
            8..=11 | 18 => (Kind::Alias(size_or_type), 0),
            13 => (Kind::Other, 8 * count),
            14 | 17 => (Kind::Other, 4),
            15 => (Kind::Other, 12 * count),
            19 => (Kind::Other, 12 * count),
            2 | 7 | 12 | 16 => (Kind::Other, 0),
            _ => return None,
        };
        self.types.push(kind);
        let number = self.types.len() as u32;
        if let (Some(Kind::Struct(members)), Some(name)) = (self.types.last(), self.text(name))
            && !name.is_empty()
            && !members.is_empty()
        {
            let name = name.to_owned();
            self.by_name.entry(name).or_insert(number);
        }
        types.get(..body.checked_add(length)?).map(<[u8]>::len)
    }

    fn text(&self, at: u32) -> Option<&str> {
        let rest = self.strings.get(at as usize..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }

    /// The offset in bytes of a member of structure `name`. `member` is a path with dots through nested
    /// structures; anonymous ones need no name.
    ///
    /// # Errors
    /// [`BtfError::Missing`].
    pub fn offset(&self, name: &str, member: &str) -> Result<u64, BtfError> {
        let missing = || BtfError::Missing {
            name: name.to_owned(),
            member: member.to_owned(),
        };
        let mut number = *self.by_name.get(name).ok_or_else(missing)?;
        let mut bits = 0;
        for part in member.split('.') {
            let (inner, offset) = self.member(number, part, DEEPEST).ok_or_else(missing)?;
            bits += u64::from(offset);
            number = inner;
        }
        Ok(bits / 8)
    }

    /// True if the kernel has a structure with this member.
    pub fn has(&self, name: &str, member: &str) -> bool {
        self.offset(name, member).is_ok()
    }

    /// The type and bit offset of a member.
    fn member(&self, number: u32, wanted: &str, depth: usize) -> Option<(u32, u32)> {
        let depth = depth.checked_sub(1)?;
        let members = match self.types.get((number as usize).checked_sub(1)?)? {
            Kind::Struct(members) => members,
            Kind::Alias(other) => return self.member(*other, wanted, depth),
            Kind::Other => return None,
        };
        for (name, inner, bits) in members {
            match self.text(*name)? {
                name if name == wanted => return Some((*inner, *bits)),
                "" => {
                    if let Some((found, more)) = self.member(*inner, wanted, depth) {
                        return Some((found, bits.checked_add(more)?));
                    }
                }
                _ => {}
            }
        }
        None
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct outer { int a; struct { struct inner b; }; } ; struct inner { int x; int y; }`
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0outer\0a\0b\0inner\0x\0y\0";
        let place = |name: &str| {
            let mut at = 0;
            for text in strings.split(|byte| *byte == 0) {
                if text == name.as_bytes() {
                    return at as u32;
                }
                at += text.len() + 1;
            }
            panic!("no {name}");
        };
        let mut types: Vec<u32> = vec![place("int"), 1 << 24, 4, 32];
        types.extend([place("inner"), 4 << 24 | 2, 8]);
        types.extend([place("x"), 1, 0, place("y"), 1, 32]);
        types.extend([0, 4 << 24 | 1, 16, place("b"), 2, 64]);
        types.extend([place("outer"), 4 << 24 | 2, 24]);
        types.extend([place("a"), 1, 0, 0, 3, 64]);
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut data = vec![0x9f, 0xeb, 1, 0];
        let header = [
            24,
            0,
            types.len() as u32,
            types.len() as u32,
            strings.len() as u32,
        ];
        data.extend(header.iter().flat_map(|word| word.to_le_bytes()));
        data.extend(types);
        data.extend(strings);
        data
    }

    #[test]
    fn offsets_go_through_nested_and_anonymous_structures() {
        let btf = Btf::read(&sample()).unwrap();
        assert_eq!(btf.offset("outer", "a"), Ok(0));
        assert_eq!(btf.offset("outer", "b"), Ok(16));
        assert_eq!(btf.offset("outer", "b.y"), Ok(20));
        assert_eq!(btf.offset("inner", "y"), Ok(4));
        assert!(!btf.has("inner", "z") && !btf.has("other", "a"));
    }

    #[test]
    fn damaged_information_is_refused_or_read_without_a_panic() {
        let data = sample();
        for length in 0..data.len() {
            let _ = Btf::read(&data[..length]).map(|btf| btf.has("outer", "b.y"));
        }
        for at in 0..data.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut data = data.clone();
                data[at] = value;
                let _ = Btf::read(&data).map(|btf| btf.has("outer", "b.y"));
            }
        }
    }
}
