//! Extended attributes of a squashfs: a table of sets, each a run of names and values.
//!
//! Counts and sizes are limited as in Linux. Called for each inode with attributes.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::metadata::{Cursor, Metadata, damaged};

/// Most attributes of a node, and longest value, as in Linux.
const MOST: u32 = 4096;
const LONGEST: u32 = 1 << 16;
/// Most bytes of the attributes of one node.
const MOST_BYTES: usize = 1 << 20;
/// Flag: the value is stored elsewhere and shared.
const ELSEWHERE: u16 = 0x100;

/// The attributes with this number in the image's table.
pub(super) fn read(
    metadata: &mut Metadata,
    number: Option<u32>,
) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut attributes = BTreeMap::new();
    let (Some(number), Some(table)) = (number, metadata.superblock.attribute_table) else {
        return Ok(attributes);
    };
    let mut head = [0; 12];
    metadata.raw(table)?.read_exact(&mut head)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = head;
    let start = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    if number >= u32::from_le_bytes([i, j, k, l]) {
        return Err(damaged("attributes aren't in the table of attributes"));
    }
    let ids = table
        .checked_add(16)
        .ok_or_else(|| damaged("a table's place is impossible"))?;
    let mut id = metadata.indexed(ids, u64::from(number), 16)?;
    let reference = u64::from_le_bytes(metadata.array(&mut id)?);
    let count = u32::from_le_bytes(metadata.array(&mut id)?);
    if count > MOST {
        return Err(damaged("a file has too many attributes"));
    }
    let mut cursor = Cursor::at(start, reference)?;
    let mut total = 0;
    for _ in 0..count {
        let (name, value) = attribute(metadata, &mut cursor, start)?;
        total += name.len() + value.len();
        if total > MOST_BYTES {
            return Err(damaged("a file has too long attributes"));
        }
        attributes.insert(name, value);
    }
    Ok(attributes)
}

fn attribute(
    metadata: &mut Metadata,
    cursor: &mut Cursor,
    start: u64,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let kind = u16::from_le_bytes(metadata.array(cursor)?);
    let length = usize::from(u16::from_le_bytes(metadata.array(cursor)?));
    let prefix: &[u8] = match kind & 0xff {
        0 => b"user.",
        1 => b"trusted.",
        2 => b"security.",
        _ => return Err(damaged("an attribute is of an unknown kind")),
    };
    let mut name = vec![0; length];
    metadata.fill(cursor, &mut name)?;
    let mut value = value(metadata, cursor)?;
    if kind & ELSEWHERE != 0 {
        let reference = <[u8; 8]>::try_from(&value[..]);
        let reference = reference.map_err(|_| damaged("an attribute's place is damaged"))?;
        let mut elsewhere = Cursor::at(start, u64::from_le_bytes(reference))?;
        value = self::value(metadata, &mut elsewhere)?;
    }
    Ok(([prefix, &name].concat(), value))
}

fn value(metadata: &mut Metadata, cursor: &mut Cursor) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(metadata.array(cursor)?);
    if length > LONGEST {
        return Err(damaged("an attribute is too long"));
    }
    let mut value = vec![0; length as usize];
    metadata.fill(cursor, &mut value)?;
    Ok(value)
}
