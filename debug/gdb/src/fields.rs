//! Numbers, texts and thread identifiers in packets.
//!
//! Fields come from the other side of the connection; a malformed one is `None`, which the server answers with an
//! error. Called by `server` and `files`.

use crate::target::ThreadId;

/// Bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes from hexadecimal digits; `None` if they are not.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}

/// A hexadecimal number.
pub(crate) fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// An address and a length, separated by a comma.
pub(crate) fn range(text: &str) -> Option<(u64, u64)> {
    let (start, length) = text.split_once(',')?;
    Some((number(start)?, number(length)?))
}

/// A thread as `p1.2`, or `1` for a process of unknown number. Minus one stands for all, zero for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadField {
    /// `None` for all processes, or any.
    pub(crate) pid: Option<u64>,
    /// `None` for all threads, or any.
    pub(crate) tid: Option<u64>,
}

impl ThreadField {
    /// Reads a field of a packet.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let one = |text: &str| match text {
            "-1" | "0" => Some(None),
            text => number(text).map(Some),
        };
        let Some(rest) = text.strip_prefix('p') else {
            return Some(Self {
                pid: None,
                tid: one(text)?,
            });
        };
        let (pid, tid) = rest.split_once('.').unwrap_or((rest, "-1"));
        Some(Self {
            pid: one(pid)?,
            tid: one(tid)?,
        })
    }

    /// True if `thread` is meant.
    pub(crate) fn covers(&self, thread: ThreadId) -> bool {
        self.pid.is_none_or(|pid| pid == thread.pid) && self.tid.is_none_or(|tid| tid == thread.tid)
    }
}

/// A thread in a packet.
pub(crate) fn thread(thread: ThreadId) -> String {
    format!("p{:x}.{:x}", thread.pid, thread.tid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_read_with_and_without_a_process() {
        let of = |text| ThreadField::of(text).map(|field| (field.pid, field.tid));
        assert_eq!(of("p1f.2"), Some((Some(0x1f), Some(2))));
        assert_eq!(of("p3.-1"), Some((Some(3), None)));
        assert_eq!(of("p3"), Some((Some(3), None)));
        assert_eq!(of("-1"), Some((None, None)));
        assert_eq!(of("2a"), Some((None, Some(42))));
        assert_eq!(of("px"), None);
    }

    #[test]
    fn digits_are_pairs() {
        assert_eq!(from_hex("00ff7A"), Some(vec![0, 255, 0x7a]));
        assert_eq!(from_hex("0"), None);
        assert_eq!(from_hex("é"), None);
        assert_eq!(to_hex(&[0, 255]), "00ff");
        assert_eq!(range("ff,10"), Some((255, 16)));
    }
}
