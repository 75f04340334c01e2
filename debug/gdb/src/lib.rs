//! The remote serial protocol of gdb, which lldb and editors also use: a server for one connection.
//!
//! The package `gdbstub` implements the protocol for targets with a single process. A target here has many,
//! the ranks of a job, each with its own memory; so the protocol is implemented here, with the extensions
//! for several processes, reverse execution and files. The other side is untrusted: packets have a longest
//! length, and a malformed one is answered with an error. Source: gdb's manual, appendix "Remote Protocol".

/// Target descriptions and the order of registers.
mod description;
/// Numbers and texts in packets.
mod fields;
/// Files of the target, for its programs and libraries.
mod files;
/// Packets with their checksums.
mod packet;
/// The commands of a connection.
mod server;
/// The subject of a debugger.
mod target;

pub use description::Registers;
pub use packet::{Incoming, MOST_PACKET, PacketReader, encode};
pub use server::{Connection, Outcome};
pub use target::{
    Breakpoint, Cause, Movement, Stop, Target, ThreadId, WatchedAccesses, WatchedRange,
};
