//! Observes MPI calls in a guest from outside, and decodes them from its memory.
//!
//! A [`NodeTracer`] converts a node's probe hits and magic instructions to [`Event`](belljar_trace::Event)s. It tracks each process's communicators, datatypes and
//! requests, because the meaning of a call's words depends on earlier calls. It writes only return addresses to the guest, and trusts no data read there. Used by the
//! runner of a node. Readers of traces only need `belljar-trace` and `belljar-analysis`.
//!
//! `node` is the tracer of a node and has its processes. `interception` finds calls, `decode` decodes their words, and `calls` has the open ones. `own` has calls at
//! the user's probes, and `receives` the messages of receives. A `process` has `objects` and a `launch`; all read the `guest`.

/// The present state of processes.
mod activity;
/// Calls that were entered and have not returned.
mod calls;
/// Decoding of a call's words.
mod decode;
/// The guest as the tracer sees it.
mod guest;
/// Interception of calls.
mod interception;
/// A process's job, from its environment.
mod launch;
/// The tracer of a node.
mod node;
/// The MPI objects of a process.
mod objects;
/// Calls at the user's probes.
mod own;
/// One MPI process.
mod process;
/// Receives as MPI libraries post and complete them.
mod receives;
/// A tracer as bytes.
mod saved;
/// Scripted guest processes, for tests.
#[cfg(any(test, feature = "scripted"))]
pub mod scripted;
/// Selection of recorded calls.
mod selection;

pub use activity::{ActiveProcess, object_name};
pub use guest::memory::{BadAddress, GuestMemory};
pub use guest::registers::MagicRegisters;
pub use interception::targets::function::{FunctionError, check_code, functions_called};
pub use interception::targets::{PAGE, TargetPage, Targets};
pub use node::NodeTracer;
pub use own::buffers::{BuffersToWatch, RangeToWatch, StoppedAccess};
pub use selection::{Selection, SelectionError, Window};

#[cfg(test)]
mod tests;
