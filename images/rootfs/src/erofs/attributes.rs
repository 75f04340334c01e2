//! Encoding of extended attributes, which follow an inode.
//!
//! A header of 12 bytes, then for each attribute an entry of 4 bytes (length of the name's suffix, index of the
//! name's prefix, length of the value), the suffix and the value, padded to a multiple of 4: `struct
//! erofs_xattr_ibody_header` and `struct erofs_xattr_entry` of `fs/erofs/erofs_fs.h`. No attribute is shared between
//! inodes.

use std::collections::BTreeMap;

const HEADER: usize = 12;
const ENTRY: usize = 4;
/// Linux's limits: `XATTR_NAME_MAX`, `XATTR_LIST_MAX` (`include/uapi/linux/limits.h`).
const LONGEST_NAME: usize = 255;
const LONGEST_LIST: usize = 65_536;
/// Limits of the 16-bit count in an inode and the 16-bit length in an entry.
const MOST_UNITS: usize = u16::MAX as usize;
const LONGEST_VALUE: usize = u16::MAX as usize;
/// Prefixes of names, and their indexes: `EROFS_XATTR_INDEX_*`. The names of ACLs have no suffix.
const PREFIXES: [(&[u8], u8); 3] = [(b"user.", 1), (b"trusted.", 4), (b"security.", 6)];
const WHOLE_NAMES: [(&[u8], u8); 2] = [
    (b"system.posix_acl_access", 2),
    (b"system.posix_acl_default", 3),
];

/// An attribute that an image can't hold, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unfit<'a> {
    pub(super) name: &'a [u8],
    pub(super) why: &'static str,
}

/// Bytes of the attributes after their inode, or the attribute that can't be encoded.
pub(super) fn length(attributes: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<u64, Unfit<'_>> {
    let (mut bytes, mut list) = (HEADER, 0);
    for (name, value) in attributes {
        let unfit = |why| Unfit { name, why };
        let (_, rest) = split(name).ok_or(unfit(
            "only names in user., trusted. and security. and those of POSIX access lists can be kept",
        ))?;
        if name.len() > LONGEST_NAME || name.contains(&0) {
            return Err(unfit(
                "the name is longer than 255 bytes or has a zero byte",
            ));
        }
        if value.len() > LONGEST_VALUE {
            return Err(unfit("the value is longer than 65535 bytes"));
        }
        bytes += (ENTRY + rest.len() + value.len()).next_multiple_of(ENTRY);
        list += name.len() + 1;
        if list > LONGEST_LIST || units(bytes) > MOST_UNITS {
            return Err(unfit("the file has more attributes than an image takes"));
        }
    }
    Ok(match attributes.is_empty() {
        true => 0,
        false => bytes as u64,
    })
}

/// Encodes the attributes as they follow their inode; `None` if they can't be encoded.
pub(super) fn encode(attributes: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Vec<u8>> {
    if attributes.is_empty() {
        return Some(Vec::new());
    }
    let mut bytes = vec![0; HEADER];
    for (name, value) in attributes {
        let (index, rest) = split(name)?;
        bytes.extend([u8::try_from(rest.len()).ok()?, index]);
        bytes.extend(u16::try_from(value.len()).ok()?.to_le_bytes());
        bytes.extend(rest);
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(ENTRY), 0);
    }
    Some(bytes)
}

/// An inode's count for so much attribute data: `erofs_xattr_ibody_size`.
pub(super) fn units(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        bytes => (bytes.saturating_sub(HEADER)) / ENTRY + 1,
    }
}

/// Index of a name's prefix, and the suffix.
fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    if let Some((whole, index)) = WHOLE_NAMES.iter().find(|(whole, _)| *whole == name) {
        return Some((*index, &name[whole.len()..]));
    }
    PREFIXES.iter().find_map(|(prefix, index)| {
        let rest = name.strip_prefix(*prefix)?;
        (!rest.is_empty()).then_some((*index, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &[u8], value: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
        BTreeMap::from([(name.to_vec(), vec![7; value])])
    }

    #[test]
    fn lengths_are_those_of_the_bytes() {
        for value in [0, 1, 2, 3, 4, 5, 4000, 65_535] {
            let attributes = one(b"user.name", value);
            let bytes = encode(&attributes).expect("fits");
            assert_eq!(Ok(bytes.len() as u64), length(&attributes));
            assert_eq!(bytes.len(), HEADER + (units(bytes.len()) - 1) * ENTRY);
        }
        assert_eq!(length(&BTreeMap::new()), Ok(0));
    }

    #[test]
    fn what_an_image_cannot_hold_is_named() {
        let other = one(b"system.nfs4_acl", 1);
        assert_eq!(length(&other).expect_err("unfit").name, b"system.nfs4_acl");
        for name in [&b"user."[..], b"user", b"", b"system.posix_acl_access2"] {
            assert!(length(&one(name, 1)).is_err(), "{name:?}");
        }
        assert!(length(&one(&[b"user.", &[b'x'; 251][..]].concat(), 1)).is_err());
        assert!(length(&one(b"user.zero\0", 1)).is_err());
        assert!(length(&one(b"user.x", 65_536)).is_err());
        let many = |count: usize, value: usize| -> BTreeMap<Vec<u8>, Vec<u8>> {
            let name = |index| format!("user.{index:0>250}").into_bytes();
            (0..count)
                .map(|index| (name(index), vec![0; value]))
                .collect()
        };
        assert!(length(&many(256, 0)).is_ok());
        assert!(length(&many(257, 0)).is_err());
        assert!(length(&many(5, 60_000)).is_err());
    }
}
