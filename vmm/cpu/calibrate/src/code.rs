//! Executable memory for one loop, and buffers for its data.
//!
//! Code is written to a mapping that is made executable afterwards: no mapping is ever writable and executable. `loops`
//! and `caches` are the only sources of code. It saves its caller's registers, and accesses one buffer. `clock` is the
//! caller.
#![allow(unsafe_code)]

use std::{io, ptr};

use crate::CalibrateError;

/// An anonymous private mapping.
#[derive(Debug)]
struct Mapping {
    at: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> Result<Self, CalibrateError> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address, so no other mapping is replaced.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(failed(bytes));
        }
        Ok(Self {
            at: at.cast(),
            bytes,
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference outlives it.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

fn failed(bytes: usize) -> CalibrateError {
    CalibrateError::Memory {
        bytes,
        source: io::Error::last_os_error(),
    }
}

/// A function in machine code: `extern "sysv64" fn(buffer, rounds)`.
#[derive(Debug)]
pub(crate) struct Function {
    mapping: Mapping,
}

impl Function {
    /// The function with this code, which can be placed anywhere.
    pub(crate) fn new(code: &[u8]) -> Result<Self, CalibrateError> {
        let mapping = Mapping::new(code.len().max(1).next_multiple_of(4096))?;
        let executable = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the mapping has room for the code, and only this value has its address.
        let done = unsafe {
            ptr::copy_nonoverlapping(code.as_ptr(), mapping.at, code.len());
            libc::mprotect(mapping.at.cast(), mapping.bytes, executable)
        };
        match done {
            0 => Ok(Self { mapping }),
            _ => Err(failed(mapping.bytes)),
        }
    }

    /// Runs it with the buffer, for so many rounds, at least one.
    pub(crate) fn call(&self, buffer: &mut Buffer, rounds: u64) {
        // SAFETY: the code follows the calling convention, keeps to the buffer, and ends after `rounds` rounds.
        unsafe {
            let function: extern "sysv64" fn(*mut u8, u64) =
                std::mem::transmute(self.mapping.at.cast_const());
            function(buffer.mapping.at, rounds.max(1));
        }
    }
}

/// Pages of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Of 4 KiB.
    Small,
    /// Of 2 MiB, if the host has them.
    Huge,
}

/// Zeroed memory for data of loops.
#[derive(Debug)]
pub(crate) struct Buffer {
    mapping: Mapping,
}

impl Buffer {
    /// A buffer of so many words of 8 bytes.
    pub(crate) fn new(words: usize, pages: Pages) -> Result<Self, CalibrateError> {
        // Whole huge pages, so that the kernel aligns the mapping to one.
        let mapping = Mapping::new((words * 8).next_multiple_of(2 << 20))?;
        let advice = match pages {
            Pages::Small => libc::MADV_NOHUGEPAGE,
            Pages::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: advice about this value's own mapping changes no content. A host without huge pages refuses it,
        // which only changes measurements.
        unsafe { libc::madvise(mapping.at.cast(), mapping.bytes, advice) };
        Ok(Self { mapping })
    }

    /// Its words.
    pub(crate) fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is aligned and initialised with zeros, and lives as long as the borrow.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.at.cast(), self.mapping.bytes / 8) }
    }

    /// Address of its first word.
    pub(crate) fn address(&self) -> u64 {
        self.mapping.at as u64
    }
}

/// Processor time of this thread in nanoseconds.
pub(crate) fn thread_nanoseconds() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is valid, and every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov [rdi], rsi; ret`.
    #[test]
    fn a_function_gets_its_buffer_and_its_rounds() {
        let function = Function::new(&[0x48, 0x89, 0x37, 0xc3]).unwrap();
        let mut buffer = Buffer::new(8, Pages::Small).unwrap();
        function.call(&mut buffer, 77);
        assert_eq!(buffer.words()[0], 77);
        assert_eq!(buffer.words()[1], 0);
    }
}
