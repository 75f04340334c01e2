//! Names of signals.
//!
//! For people alone: how an agent ended is told by the name of the signal that ended it. Called by the ways
//! to launch that see an exit status.

use nix::sys::signal::Signal;

/// `SIGKILL` for 9; numbers without a name as `signal 40`.
pub(crate) fn name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {number}"),
    }
}
