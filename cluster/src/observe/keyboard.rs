//! Standard input as a guest's keyboard.
//!
//! A thread reads it, so a caller can limit its wait for a key. A terminal is in raw mode as long as the
//! [`Keyboard`](keyboard::Keyboard) lives and gets its settings back at its end. Used by `belljar boot` and `belljar
//! console`.

use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

/// On a terminal, Ctrl-A and then `x` leaves, `p` pauses virtual time if the run supports it, and a second Ctrl-A types
/// one.
const ESCAPE: u8 = 1;
const LEAVE: u8 = b'x';
const PAUSE: u8 = b'p';
const BUFFER: usize = 4096;

/// Input since the last call.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// For the guest.
    pub bytes: Vec<u8>,
    /// True if the user wants to leave.
    pub leaves: bool,
    /// True if virtual time should change between running and paused.
    pub pauses: bool,
}

/// Standard input, read by a thread; a terminal is in raw mode meanwhile.
pub struct Keyboard {
    bytes: Option<Receiver<Vec<u8>>>,
    escapes: Option<Escapes>,
    terminal: Option<Termios>,
}

/// Removes the sequences of Ctrl-A from the input.
#[derive(Debug, Default)]
struct Escapes {
    open: bool,
}

impl Keyboard {
    /// No input at all.
    pub fn none() -> Self {
        Self {
            bytes: None,
            escapes: None,
            terminal: None,
        }
    }

    /// Standard input.
    pub fn stdin() -> Self {
        let (sender, receiver) = channel();
        let is_terminal = io::stdin().is_terminal();
        let terminal = is_terminal.then(make_raw).flatten();
        std::thread::spawn(move || {
            let mut buffer = [0; BUFFER];
            while let Ok(count @ 1..) = io::stdin().lock().read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            bytes: Some(receiver),
            escapes: is_terminal.then(Escapes::default),
            terminal,
        }
    }

    /// True if no more input can come.
    pub fn is_closed(&self) -> bool {
        self.bytes.is_none()
    }

    /// The input so far; waits up to `patience` for its start.
    pub fn typed(&mut self, patience: Duration) -> Typed {
        let mut typed = Typed::default();
        let Some(receiver) = &self.bytes else {
            return typed;
        };
        let first = match receiver.recv_timeout(patience) {
            Ok(bytes) => bytes,
            Err(RecvTimeoutError::Timeout) => return typed,
            Err(RecvTimeoutError::Disconnected) => {
                self.bytes = None;
                return typed;
            }
        };
        typed.bytes = first;
        while let Ok(more) = receiver.try_recv() {
            typed.bytes.extend(more);
        }
        match &mut self.escapes {
            Some(escapes) => escapes.take_from(&typed.bytes),
            None => typed,
        }
    }
}

impl Escapes {
    fn take_from(&mut self, bytes: &[u8]) -> Typed {
        let mut typed = Typed::default();
        for &byte in bytes {
            if std::mem::take(&mut self.open) {
                typed.leaves |= byte == LEAVE;
                typed.pauses ^= byte == PAUSE;
                if byte == ESCAPE {
                    typed.bytes.push(byte);
                }
            } else if byte == ESCAPE {
                self.open = true;
            } else {
                typed.bytes.push(byte);
            }
        }
        typed
    }
}

/// Puts the terminal into raw mode; returns its previous settings.
fn make_raw() -> Option<Termios> {
    let before = tcgetattr(io::stdin()).ok()?;
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    tcsetattr(io::stdin(), SetArg::TCSANOW, &raw).ok()?;
    Some(before)
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Some(settings) = &self.terminal {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, settings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_escape_and_x_leaves() {
        let mut escapes = Escapes::default();
        let typed = escapes.take_from(b"x\x01\x01y\x01");
        assert_eq!(
            (typed.bytes.as_slice(), typed.leaves),
            (&b"x\x01y"[..], false)
        );
        let typed = escapes.take_from(b"x");
        assert_eq!((typed.bytes.as_slice(), typed.leaves), (&b""[..], true));
        assert!(!escapes.take_from(b"\x01q").leaves);
        let pauses = |bytes: &[u8]| Escapes::default().take_from(bytes).pauses;
        assert!(pauses(b"\x01p") && !pauses(b"\x01p\x01p") && !pauses(b"p"));
    }
}
