//! The entries of a tar stream, in order.
//!
//! Headers are parsed by the `tar` crate; its iterator is not used, since it reads extension headers of
//! any length into memory. Here they are bounded. PAX records and GNU's long names are applied, sparse
//! files are refused, and global PAX headers (comments of `git archive`) are skipped.

use std::collections::BTreeMap;
use std::io::{self, Read};

use tar::{EntryType, Header};

use super::error::shown;

/// Longest extension header: a long name or PAX records, attributes among them.
const LONGEST_EXTENSION: u64 = 1 << 20;
const BLOCK: u64 = 512;

/// One entry's metadata.
#[derive(Debug, Clone)]
pub(super) struct EntryMetadata {
    pub(super) path: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) kind: EntryType,
    pub(super) mode: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: u64,
    pub(super) device: (u32, u32),
    pub(super) size: u64,
    pub(super) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Reads a tar stream; `Read` returns the data of the entry that `next` returned.
pub(super) struct Entries<R> {
    input: R,
    /// Bytes of the entry that are not read yet, and the padding after them.
    left: u64,
    padding: u64,
    /// Number of bytes read from the stream.
    position: u64,
    ended: bool,
}

/// Values for the next entry from extension headers.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    records: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<R: Read> Entries<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            left: 0,
            padding: 0,
            position: 0,
            ended: false,
        }
    }

    /// Returns the next entry, skipping unread data of the last one.
    ///
    /// # Errors
    /// When the stream ends early, or a header is damaged or unsupported.
    pub(super) fn next(&mut self) -> io::Result<Option<EntryMetadata>> {
        let mut extension = Extension::default();
        while let Some(header) = self.header()? {
            self.left = header.entry_size()?;
            self.padding = padding(self.left)?;
            match header.entry_type() {
                EntryType::GNULongName => extension.path = Some(self.name()?),
                EntryType::GNULongLink => extension.link = Some(self.name()?),
                EntryType::XHeader => records(&self.extension()?, &mut extension.records)?,
                EntryType::XGlobalHeader => {}
                _ => return self.entry(&header, extension).map(Some),
            }
        }
        if extension.path.is_some() || extension.link.is_some() || !extension.records.is_empty() {
            return Err(damaged("it ends after an extension header"));
        }
        Ok(None)
    }

    /// Position in the stream of the data of the entry that `next` returned, before any of them are read.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// True if the next block is a header or the zeros at the end.
    pub(super) fn next_is_header(&mut self) -> bool {
        matches!(self.header(), Ok(Some(_))) || self.ended
    }

    /// True once the zeros at the archive's end were read.
    pub(super) fn has_end(&self) -> bool {
        self.ended
    }

    /// The stream, after its last entry.
    pub(super) fn into_inner(self) -> R {
        self.input
    }

    fn entry(&mut self, header: &Header, extension: Extension) -> io::Result<EntryMetadata> {
        let records = extension.records;
        if header.entry_type() == EntryType::GNUSparse
            || records.keys().any(|key| key.starts_with(b"GNU.sparse."))
        {
            let name = records.get(&b"GNU.sparse.name"[..]).cloned();
            let name = name.or(extension.path);
            let name = name.unwrap_or_else(|| header.path_bytes().into_owned());
            let why = format!(
                "has a sparse file, {}, which is not read: pack it again without `--sparse` (-S)",
                shown(&name)
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let text = |key: &[u8]| records.get(key).cloned();
        let path = text(b"path").or(extension.path);
        let path = path.unwrap_or_else(|| header.path_bytes().into_owned());
        let link = text(b"linkpath").or(extension.link);
        let in_header = || header.link_name_bytes().map(|name| name.into_owned());
        if let Some(size) = number(&records, b"size")? {
            self.left = size;
            self.padding = padding(size)?;
        }
        let id = |key: &[u8], field: &[u8], in_header: io::Result<u64>| {
            let id = match number(&records, key)? {
                Some(id) => id,
                // Empty: root, as in other tar readers.
                None if field.iter().all(|byte| matches!(byte, 0 | b' ')) => 0,
                None => in_header?,
            };
            u32::try_from(id).map_err(|_| damaged("an owner's number is above 32 bits"))
        };
        let mut kind = header.entry_type();
        if kind.is_file() && path.ends_with(b"/") {
            kind = EntryType::Directory;
        }
        if kind.is_dir() || kind.is_hard_link() || kind.is_symlink() || is_device(kind) {
            // As in every tar reader: these have no data, even if the header has a size.
            (self.left, self.padding) = (0, 0);
        }
        Ok(EntryMetadata {
            kind,
            mode: (header.mode()? & 0o7777) as u16,
            uid: id(b"uid", &header.as_old().uid, header.uid())?,
            gid: id(b"gid", &header.as_old().gid, header.gid())?,
            mtime: seconds(&records).unwrap_or_else(|| header.mtime().unwrap_or(0)),
            device: device(header, kind)?,
            size: self.left,
            attributes: attributes(&records),
            link: link.or_else(in_header).unwrap_or_default(),
            path,
        })
    }

    /// A header with a correct checksum; `None` at the end.
    fn header(&mut self) -> io::Result<Option<Header>> {
        self.skip()?;
        let mut header = Header::new_old();
        if self.ended || !self.fill(header.as_mut_bytes())? {
            return Ok(None);
        }
        if header.as_bytes().iter().all(|&byte| byte == 0) {
            self.ended = true;
            return Ok(None);
        }
        let blank = |at: usize| {
            if (148..156).contains(&at) {
                b' '
            } else {
                header.as_bytes()[at]
            }
        };
        let sum: u32 = (0..BLOCK as usize).map(|at| u32::from(blank(at))).sum();
        if header.cksum().ok() != Some(sum) {
            return Err(damaged("a header has a wrong sum"));
        }
        Ok(Some(header))
    }

    /// Fills a block; false at the end. A stream may end between blocks without the two zero blocks.
    fn fill(&mut self, block: &mut [u8; BLOCK as usize]) -> io::Result<bool> {
        let mut filled = 0;
        while filled < block.len() {
            match self.input.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.position += BLOCK;
        Ok(true)
    }

    fn skip(&mut self) -> io::Result<()> {
        let rest = self.left + self.padding;
        let passed = io::copy(&mut self.input.by_ref().take(rest), &mut io::sink())?;
        // The last entry's padding may be missing, which other tar readers accept.
        if passed < self.left {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.position += passed;
        (self.left, self.padding) = (0, 0);
        Ok(())
    }

    fn name(&mut self) -> io::Result<Vec<u8>> {
        let mut name = self.extension()?;
        if let Some(end) = name.iter().position(|&byte| byte == 0) {
            name.truncate(end);
        }
        Ok(name)
    }

    fn extension(&mut self) -> io::Result<Vec<u8>> {
        if self.left > LONGEST_EXTENSION {
            return Err(damaged("an extension header is longer than 1 MiB"));
        }
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl<R: Read> Read for Entries<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if most == 0 {
            return Ok(0);
        }
        let count = self.input.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        self.position += count as u64;
        Ok(count)
    }
}

/// PAX records, each `LENGTH KEY=VALUE\n`; a value may hold any byte.
fn records(mut bytes: &[u8], into: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> io::Result<()> {
    let wrong = || damaged("a PAX record is damaged");
    while !bytes.is_empty() {
        let space = bytes
            .iter()
            .position(|&byte| byte == b' ')
            .ok_or_else(wrong)?;
        let length = std::str::from_utf8(&bytes[..space]).ok();
        let length: usize = length
            .and_then(|text| text.parse().ok())
            .ok_or_else(wrong)?;
        if length <= space + 1 || length > bytes.len() || bytes[length - 1] != b'\n' {
            return Err(wrong());
        }
        let record = &bytes[space + 1..length - 1];
        let equals = record
            .iter()
            .position(|&byte| byte == b'=')
            .ok_or_else(wrong)?;
        into.insert(record[..equals].to_vec(), record[equals + 1..].to_vec());
        bytes = &bytes[length..];
    }
    Ok(())
}

fn number(records: &BTreeMap<Vec<u8>, Vec<u8>>, key: &[u8]) -> io::Result<Option<u64>> {
    let Some(value) = records.get(key) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(value).ok();
    match text.and_then(|text| text.parse().ok()) {
        Some(number) => Ok(Some(number)),
        None => Err(damaged("a PAX record is no number")),
    }
}

/// The time in whole seconds; a time before 1970 becomes 1970.
fn seconds(records: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<u64> {
    let text = std::str::from_utf8(records.get(&b"mtime"[..])?).ok()?;
    let whole: i64 = text.split('.').next()?.parse().ok()?;
    Some(u64::try_from(whole).unwrap_or(0))
}

fn attributes(records: &BTreeMap<Vec<u8>, Vec<u8>>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let attribute = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        let name = key.strip_prefix(b"SCHILY.xattr.")?;
        (!name.is_empty()).then(|| (name.to_vec(), value.clone()))
    };
    records.iter().filter_map(attribute).collect()
}

fn device(header: &Header, kind: EntryType) -> io::Result<(u32, u32)> {
    if !is_device(kind) || kind.is_fifo() {
        return Ok((0, 0));
    }
    let major = header.device_major()?.unwrap_or(0);
    Ok((major, header.device_minor()?.unwrap_or(0)))
}

fn is_device(kind: EntryType) -> bool {
    kind.is_character_special() || kind.is_block_special() || kind.is_fifo()
}

fn padding(size: u64) -> io::Result<u64> {
    let whole = size.checked_next_multiple_of(BLOCK);
    // The sum must not overflow, even when added to a position.
    match whole {
        Some(whole) if whole < 1 << 62 => Ok(whole - size),
        _ => Err(damaged("an entry's size is impossible")),
    }
}

fn damaged(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
