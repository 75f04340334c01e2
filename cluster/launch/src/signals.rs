//! Names of signals.
//!
//! They appear in messages only: an agent's end is described by its signal's name. Called by the ways to
//! launch that see an exit status.

use nix::sys::signal::Signal;

/// `SIGKILL` for 9; `signal 40` for numbers without a name.
pub(crate) fn name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {number}"),
    }
}
