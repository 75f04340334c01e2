//! Messages as records on the wire.
//!
//! ```text
//! record:  length of the ciphertext (2, big endian)  ciphertext
//! plain:   kind (1)  bytes
//! ```
//!
//! A message is one or more records; the last one is marked. Each direction counts its
//! records. The count is the cipher's nonce, so that lost, repeated and reordered records
//! are detected.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::Errno;
use snow::StatelessTransportState;

/// Longest ciphertext in Noise.
const LONGEST_RECORD: usize = 65_535;
/// Overhead of the cipher.
const TAG: usize = 16;
/// Longest piece of a message in a record.
const PIECE: usize = LONGEST_RECORD - TAG - 1;
/// Bytes that are read at once, more than the longest record.
const BUFFER: usize = 128 << 10;
/// Longest message: bounds the memory that a peer can allocate.
pub(crate) const LONGEST_MESSAGE: usize = 1 << 28;

/// More of the message follows.
const PART: u8 = 0;
/// The message ends here.
const LAST: u8 = 1;
/// A sign of life without a message.
const ALIVE: u8 = 2;

/// The content of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PeerRecord {
    /// A message is whole.
    Message(Vec<u8>),
    /// A sign of life, also from the middle of a message.
    Alive,
}

/// Encrypts messages into bytes for the wire.
pub(crate) struct Sealer {
    count: u64,
    cipher: Vec<u8>,
    plain: Vec<u8>,
    out: Vec<u8>,
    /// Bytes of `out` that are written.
    start: usize,
    /// Bytes of messages in `out` that count as unsent.
    owed: usize,
}

impl Default for Sealer {
    fn default() -> Self {
        Self {
            count: 0,
            cipher: vec![0; LONGEST_RECORD],
            plain: Vec::with_capacity(PIECE + 1),
            out: Vec::new(),
            start: 0,
            owed: 0,
        }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("count", &self.count)
            .field("sealed", &self.sealed())
            .finish_non_exhaustive()
    }
}

impl Sealer {
    /// Encrypts `message`, of limited length, as records, and adds its `owed` bytes to the unsent ones.
    ///
    /// # Errors
    /// If the cipher's count is used up.
    pub(crate) fn message(
        &mut self,
        state: &StatelessTransportState,
        message: &[u8],
        owed: usize,
    ) -> io::Result<()> {
        self.owed += owed;
        let pieces = message.len().div_ceil(PIECE).max(1);
        for index in 0..pieces {
            let rest = &message[index * PIECE..];
            let piece = &rest[..rest.len().min(PIECE)];
            let kind = if index + 1 == pieces { LAST } else { PART };
            self.record(state, kind, piece)?;
        }
        Ok(())
    }

    /// Encrypts a sign of life, with `owed` unsent bytes.
    ///
    /// # Errors
    /// If the cipher's count is used up.
    pub(crate) fn alive(&mut self, state: &StatelessTransportState, owed: usize) -> io::Result<()> {
        self.owed += owed;
        self.record(state, ALIVE, &[])
    }

    /// The encrypted bytes that are not written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.out[self.start..]
    }

    /// Number of these bytes.
    pub(crate) fn sealed(&self) -> usize {
        self.out.len() - self.start
    }

    /// Notes that the first `count` of these bytes are written. Returns the number of bytes that no longer count as unsent: all after the last byte, at least one fewer
    /// before it.
    pub(crate) fn written(&mut self, count: usize) -> usize {
        self.start += count;
        if self.sealed() > 0 {
            let paid = count.min(self.owed.saturating_sub(1));
            self.owed -= paid;
            return paid;
        }
        self.out.clear();
        self.start = 0;
        std::mem::take(&mut self.owed)
    }

    fn record(
        &mut self,
        state: &StatelessTransportState,
        kind: u8,
        piece: &[u8],
    ) -> io::Result<()> {
        self.plain.clear();
        self.plain.push(kind);
        self.plain.extend_from_slice(piece);
        let length = state
            .write_message(self.count, &self.plain, &mut self.cipher)
            .map_err(io::Error::other)?;
        self.count += 1;
        self.out.extend_from_slice(&(length as u16).to_be_bytes());
        self.out.extend_from_slice(&self.cipher[..length]);
        Ok(())
    }
}

/// Decrypts the bytes of the wire.
pub(crate) struct Opener {
    count: u64,
    /// Bytes from the wire.
    wire: Vec<u8>,
    /// The part of `wire` that is filled and not decrypted.
    filled: Range<usize>,
    plain: Vec<u8>,
    /// The received part of a message.
    begun: Vec<u8>,
}

impl Default for Opener {
    fn default() -> Self {
        Self {
            count: 0,
            wire: vec![0; BUFFER],
            filled: 0..0,
            plain: vec![0; LONGEST_RECORD],
            begun: Vec::new(),
        }
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener")
            .field("count", &self.count)
            .field("filled", &self.filled)
            .finish_non_exhaustive()
    }
}

impl Opener {
    /// Reads once from the wire.
    ///
    /// # Errors
    /// `WouldBlock` if no data is there; `UnexpectedEof` if the peer closed, also within a message; errors of the host.
    pub(crate) fn fill(&mut self, from: impl AsFd) -> io::Result<()> {
        self.wire.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        loop {
            match rustix::io::read(&from, &mut self.wire[self.filled.end..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.filled.end += count;
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads and discards all data that is there. Returns true if no more will come.
    pub(crate) fn discard(&mut self, from: impl AsFd, mut heard: impl FnMut()) -> bool {
        loop {
            self.filled = 0..0;
            match self.fill(&from) {
                Ok(()) => heard(),
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }

    /// The next record that has been read whole: a completed message, or a sign of life.
    ///
    /// # Errors
    /// `InvalidData` for any bytes that the peer did not write at this position.
    pub(crate) fn next(
        &mut self,
        state: &StatelessTransportState,
    ) -> io::Result<Option<PeerRecord>> {
        let wire = &self.wire[self.filled.clone()];
        let Some((length, rest)) = wire.split_first_chunk::<2>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        let Some(cipher) = rest.get(..length) else {
            return Ok(None);
        };
        self.filled.start += 2 + length;
        let length = state
            .read_message(self.count, cipher, &mut self.plain)
            .map_err(|_| invalid("a record was changed on its way"))?;
        self.count += 1;
        let (kind, piece) = self.plain[..length]
            .split_first()
            .ok_or_else(|| invalid("a record is empty"))?;
        if *kind == ALIVE {
            return Ok(Some(PeerRecord::Alive));
        }
        if self.begun.len() + piece.len() > LONGEST_MESSAGE {
            return Err(invalid("a message is too long"));
        }
        self.begun.extend_from_slice(piece);
        match *kind {
            PART => Ok(Some(PeerRecord::Alive)),
            LAST => Ok(Some(PeerRecord::Message(std::mem::take(&mut self.begun)))),
            _ => Err(invalid("a record is of no known kind")),
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::handshake::tests::pair;

    fn sealed(state: &StatelessTransportState, messages: &[Vec<u8>]) -> Vec<u8> {
        let mut sealer = Sealer::default();
        for message in messages {
            sealer.alive(state, 0).unwrap();
            sealer.message(state, message, 0).unwrap();
        }
        sealer.bytes().to_vec()
    }

    /// The messages of these bytes until their end, and the kind of the error there.
    fn opened(state: &StatelessTransportState, wire: &[u8]) -> (Vec<Vec<u8>>, io::ErrorKind) {
        let (mut near, far) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The other end may be closed after an error.
                let _ = near.write_all(wire);
            });
            let mut opener = Opener::default();
            let mut messages = Vec::new();
            let end = loop {
                match opener.next(state) {
                    Ok(Some(PeerRecord::Message(message))) => messages.push(message),
                    Ok(Some(PeerRecord::Alive)) => {}
                    Ok(None) => {
                        if let Err(error) = opener.fill(&far) {
                            break error.kind();
                        }
                    }
                    Err(error) => break error.kind(),
                }
            };
            drop(far);
            (messages, end)
        })
    }

    #[test]
    fn messages_of_any_length_arrive() {
        let (ours, theirs) = pair();
        let messages: Vec<Vec<u8>> = [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7]
            .map(|length| (0..length).map(|byte| byte as u8).collect())
            .into();
        let wire = sealed(&ours, &messages);
        let (arrived, end) = opened(&theirs, &wire);
        assert!(arrived == messages);
        assert_eq!(end, io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_was_changed_or_moved_is_refused() {
        let (ours, theirs) = pair();
        let wire = sealed(&ours, &[b"first".to_vec()]);
        let read = |wire: &[u8]| opened(&theirs, wire);
        let end = io::ErrorKind::UnexpectedEof;
        assert_eq!(read(&wire), (vec![b"first".to_vec()], end));
        for at in 0..wire.len() {
            let mut changed = wire.clone();
            changed[at] ^= 1;
            assert!(read(&changed).0.is_empty(), "{at}");
            assert_eq!(read(&wire[..at]), (Vec::new(), end), "{at}");
        }
        // Without the record `alive`, the next one has the wrong count.
        let first = 2 + usize::from(u16::from_be_bytes([wire[0], wire[1]]));
        let refused = (Vec::new(), io::ErrorKind::InvalidData);
        assert_eq!(read(&wire[first..]), refused);
    }

    #[test]
    fn a_message_without_end_is_refused() {
        let (ours, theirs) = pair();
        let mut sealer = Sealer::default();
        sealer.record(&ours, PART, &[0; PIECE]).unwrap();
        let wire = sealer.bytes();
        let mut opener = Opener {
            begun: vec![0; LONGEST_MESSAGE - PIECE],
            ..Opener::default()
        };
        for _ in 0..2 {
            opener.wire[..wire.len()].copy_from_slice(wire);
            opener.filled = 0..wire.len();
            opener.count = 0;
            match opener.next(&theirs) {
                Ok(record) => assert_eq!(record, Some(PeerRecord::Alive)),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                    return;
                }
            }
        }
        panic!("a message is longer than the limit");
    }

    #[test]
    fn bytes_count_as_unsent_until_the_last_is_written() {
        let (ours, _) = pair();
        let mut sealer = Sealer::default();
        sealer.message(&ours, &[7; 100], 101).unwrap();
        sealer.alive(&ours, 1).unwrap();
        let all = sealer.sealed();
        assert!(all > 102);
        assert_eq!(sealer.written(60), 60);
        assert_eq!(sealer.written(all - 61), 41);
        assert_eq!(sealer.written(1), 1);
        assert_eq!((sealer.sealed(), sealer.bytes()), (0, &[][..]));
    }
}
