//! The user's terminal: notes, warnings, progress, colours and Ctrl-C.
//!
//! Standard output has results only; everything here goes to standard error, except colours of results. Called by `main` and the
//! subcommands.

/// Colours of warnings, errors and results.
pub(crate) mod colour;
/// Emphasis in results.
pub(super) mod highlight;
/// Signals that end the program.
pub(crate) mod interrupt;
/// Messages of libraries, on standard error.
pub(crate) mod notes;
/// Progress of long work.
pub(crate) mod progress;
/// Progress of replays and simulations, and their end by the user.
pub(super) mod watch;
