//! Names of signals.

use nix::sys::signal::Signal;

/// `SIGKILL` for 9; numbers without a name as `signal 40`.
pub(crate) fn name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {number}"),
    }
}
