//! Files of the target (`vFile`): gdb reads programs and libraries as the target's processes see them.
//!
//! Files are read as a whole when they are opened, and only for reading.

use std::collections::BTreeMap;

use crate::fields::{from_hex, number, to_hex};
use crate::target::Target;

/// Error numbers of the protocol.
const NOT_FOUND: u32 = 2;
const BAD_FILE: u32 = 9;
const REFUSED: u32 = 13;
const INVALID: u32 = 22;
/// The bits of an open mode that request writing.
const WRITES: u64 = 3;
/// Most open files.
const MOST: usize = 256;
/// Bytes that a reply holds.
const MOST_READ: usize = 16 << 10;
/// Type and permissions of a regular file that all can read.
const MODE: u32 = 0o100_555;

/// The open files of a connection.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl OpenFiles {
    /// The reply to the operation in a packet `vFile:OPERATION:ARGUMENTS`; `None` for an unknown one.
    pub(crate) fn execute(&mut self, text: &str, target: &mut impl Target) -> Option<Vec<u8>> {
        let (operation, arguments) = text.split_once(':').unwrap_or((text, ""));
        let fields: Vec<&str> = arguments.split(',').collect();
        let reply = match operation {
            "setfs" => Ok((0, Vec::new())),
            "open" => self.open(&fields, target),
            "close" => match fields.first().and_then(|it| number(it)) {
                Some(file) if self.files.remove(&file).is_some() => Ok((0, Vec::new())),
                _ => Err(BAD_FILE),
            },
            "pread" => self.read(&fields),
            "fstat" => self.state(&fields),
            "readlink" => Err(INVALID),
            _ => return None,
        };
        Some(match reply {
            Ok((result, data)) => {
                let mut bytes = format!("F{result:x}").into_bytes();
                if !data.is_empty() || matches!(operation, "pread" | "fstat") {
                    bytes.push(b';');
                    bytes.extend(data);
                }
                bytes
            }
            Err(error) => format!("F-1,{error:x}").into_bytes(),
        })
    }

    fn open(&mut self, fields: &[&str], target: &mut impl Target) -> Result<(u64, Vec<u8>), u32> {
        let [path, flags, _mode] = fields else {
            return Err(INVALID);
        };
        let path = from_hex(path).and_then(|bytes| String::from_utf8(bytes).ok());
        let (path, flags) = path.zip(number(flags)).ok_or(INVALID)?;
        if flags & WRITES != 0 || self.files.len() >= MOST {
            return Err(REFUSED);
        }
        let content = target.file(&path).ok_or(NOT_FOUND)?;
        self.next += 1;
        self.files.insert(self.next, content);
        Ok((self.next, Vec::new()))
    }

    fn read(&self, fields: &[&str]) -> Result<(u64, Vec<u8>), u32> {
        let numbers: Option<Vec<u64>> = fields.iter().map(|field| number(field)).collect();
        let Some([file, count, offset]) = numbers.as_deref() else {
            return Err(INVALID);
        };
        let content = self.files.get(file).ok_or(BAD_FILE)?;
        let start = usize::try_from(*offset)
            .unwrap_or(usize::MAX)
            .min(content.len());
        let count = usize::try_from(*count).unwrap_or(usize::MAX).min(MOST_READ);
        let data = &content[start..content.len().min(start.saturating_add(count))];
        Ok((data.len() as u64, data.to_vec()))
    }

    /// `struct stat` of the protocol: big-endian numbers.
    fn state(&self, fields: &[&str]) -> Result<(u64, Vec<u8>), u32> {
        let file = fields
            .first()
            .and_then(|field| number(field))
            .ok_or(INVALID)?;
        let size = self.files.get(&file).ok_or(BAD_FILE)?.len() as u64;
        let mut state = Vec::new();
        for word in [0, file as u32, MODE, 1, 0, 0, 0] {
            state.extend(word.to_be_bytes());
        }
        for word in [size, 4096, size.div_ceil(512)] {
            state.extend(word.to_be_bytes());
        }
        state.extend([0; 12]);
        Ok((state.len() as u64, state))
    }
}

/// A part of `document` as `qXfer` returns it, from `offset` on: `m` if more follows, or `l`.
pub(crate) fn part(document: &[u8], offset: u64, length: u64) -> Vec<u8> {
    let start = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .min(document.len());
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(MOST_READ);
    let end = document.len().min(start.saturating_add(length));
    let mut reply = vec![if end < document.len() { b'm' } else { b'l' }];
    reply.extend(&document[start..end]);
    reply
}

/// A text in the digits of an `O` packet.
pub(crate) fn output(bytes: &[u8]) -> String {
    format!("O{}", to_hex(bytes))
}
