//! Guest memory for the tracer: small, checked accesses by linear address.
//!
//! An access changes only the bytes that are written, and a bad address is an error, never a fault. Arrays and texts
//! are limited in length. The runner provides a [`GuestMemory`](memory::GuestMemory) of its node; `arguments` reads through
//! [`Reader`](memory::Reader).

/// A linear address that is not mapped, or not for this access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the guest's linear address {0:#x} is not mapped; a pointer of the program is wrong, or its page not resident"
)]
pub struct BadAddress(pub u64);

/// Memory of a guest process, by linear address, seen through the page tables in force at a magic exit. Accesses change
/// only the bytes written: no accessed or dirty bits, no faults in the guest.
///
/// ```
/// use belljar_tracer::{BadAddress, GuestMemory};
///
/// /// Eight bytes, mapped at 0x1000.
/// struct Word([u8; 8]);
///
/// impl Word {
///     fn at(&mut self, linear: u64, bytes: usize) -> Option<&mut [u8]> {
///         let start = usize::try_from(linear.checked_sub(0x1000)?).ok()?;
///         self.0.get_mut(start..start.checked_add(bytes)?)
///     }
/// }
///
/// impl GuestMemory for Word {
///     fn read(&self, linear: u64, into: &mut [u8]) -> Result<(), BadAddress> {
///         let mut word = Word(self.0);
///         let from = word.at(linear, into.len()).ok_or(BadAddress(linear))?;
///         into.copy_from_slice(from);
///         Ok(())
///     }
///
///     fn write(&mut self, linear: u64, from: &[u8]) -> Result<(), BadAddress> {
///         let into = self.at(linear, from.len()).ok_or(BadAddress(linear))?;
///         into.copy_from_slice(from);
///         Ok(())
///     }
/// }
///
/// let mut memory = Word([0; 8]);
/// memory.write(0x1004, &[7])?;
/// let mut byte = [0];
/// memory.read(0x1004, &mut byte)?;
/// assert_eq!(byte, [7]);
/// assert_eq!(memory.read(0x1008, &mut byte), Err(BadAddress(0x1008)));
/// # Ok::<(), BadAddress>(())
/// ```
pub trait GuestMemory {
    /// Fills `into` with the bytes at `linear`.
    ///
    /// # Errors
    /// Returns [`BadAddress`] if a byte of the range is not mapped; `into` is then unspecified.
    fn read(&self, linear: u64, into: &mut [u8]) -> Result<(), BadAddress>;

    /// Stores `from` at `linear`.
    ///
    /// # Errors
    /// Returns [`BadAddress`] if a byte of the range is not mapped.
    fn write(&mut self, linear: u64, from: &[u8]) -> Result<(), BadAddress>;
}

/// Most entries of an array that are read; the rest is omitted.
pub(crate) const MAX_ENTRIES: u64 = 1 << 16;

/// Most bytes of a text that are kept.
pub(crate) const MAX_TEXT: usize = 256;

/// Typed reads over any [`GuestMemory`].
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a dyn GuestMemory);

impl Reader<'_> {
    pub(crate) fn u64(self, at: u64) -> Result<u64, BadAddress> {
        let mut bytes = [0; 8];
        self.0.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads integers of `width` bytes (4: `int`, sign-extended; 8: `MPI_Count`, `MPI_Aint` or an address), at most
    /// [`MAX_ENTRIES`].
    pub(crate) fn integers(self, at: u64, count: u64, width: u8) -> Result<Vec<i64>, BadAddress> {
        let count = count.min(MAX_ENTRIES) as usize;
        let width = usize::from(width);
        let mut bytes = vec![0; count * width];
        if !bytes.is_empty() {
            self.0.read(at, &mut bytes)?;
        }
        Ok(bytes.chunks_exact(width).map(integer).collect())
    }

    /// The same as [`integers`](Self::integers), as far as their pages are mapped.
    pub(crate) fn integers_there(self, at: u64, count: u64, width: u8) -> Vec<i64> {
        const PAGE: u64 = 4096;
        let width = u64::from(width);
        let length = count.min(MAX_ENTRIES) * width;
        let mut bytes = vec![0; length as usize];
        let mut read = 0;
        while read < length {
            let Some(from) = at.checked_add(read) else {
                break;
            };
            let piece = (PAGE - from % PAGE).min(length - read);
            let into = &mut bytes[read as usize..(read + piece) as usize];
            if self.0.read(from, into).is_err() {
                break;
            }
            read += piece;
        }
        bytes.truncate(read as usize);
        bytes.chunks_exact(width as usize).map(integer).collect()
    }

    /// Reads handles of `width` bytes, zero-extended, at most [`MAX_ENTRIES`].
    pub(crate) fn handles(self, at: u64, count: u64, width: u8) -> Result<Vec<u64>, BadAddress> {
        let mask = if width == 4 {
            u64::from(u32::MAX)
        } else {
            u64::MAX
        };
        let integers = self.integers(at, count, width)?;
        Ok(integers
            .into_iter()
            .map(|value| value.cast_unsigned() & mask)
            .collect())
    }

    /// Reads the text at `at` up to its zero byte, at most [`MAX_TEXT`] bytes of it.
    pub(crate) fn text(self, at: u64) -> Result<String, BadAddress> {
        let mut text = Vec::new();
        // Reads in pieces, as the page after the terminator may not be mapped.
        const PIECE: u64 = 16;
        while text.len() < MAX_TEXT {
            let from = at
                .checked_add(text.len() as u64)
                .ok_or(BadAddress(u64::MAX))?;
            let mut piece = [0; PIECE as usize];
            let piece = &mut piece[..(PIECE - from % PIECE) as usize];
            self.0.read(from, piece)?;
            if let Some(end) = piece.iter().position(|&byte| byte == 0) {
                text.extend_from_slice(&piece[..end]);
                break;
            }
            text.extend_from_slice(piece);
        }
        text.truncate(MAX_TEXT);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn integer(bytes: &[u8]) -> i64 {
    match *bytes {
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}
