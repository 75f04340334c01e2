//! Sees MPI calls in a guest from outside, and decodes them from its memory.
//!
//! A [`NodeTracer`] turns what a node's engine stops at, probes and magic instructions, into
//! [`Event`](belljar_trace::Event)s. It follows each process's communicators, datatypes and requests, for what
//! a call's words mean depends on calls before it. It writes nothing to the guest but return addresses, and
//! believes nothing that it reads there. Called by the runner of a node, and by nobody who reads traces:
//! those need `belljar-trace` and `belljar-analysis` only.
//!
//! `node` is the tracer of a node and has its processes; `interception` is how calls come to it, `decode` what their words
//! mean, `calls` those that are open; `own` is calls that probes of the user's see, `receives` the messages that receives got. A `process` has `objects` and a `launch`; all read the guest through `memory`.

/// Calls that were entered and not left.
mod calls;
/// What a call's words mean.
mod decode;
/// How calls come to be seen.
mod interception;
/// A process's job, from its environment.
mod launch;
/// The guest's memory, as far as it can be read.
mod memory;
/// The tracer of a node.
mod node;
/// The MPI objects of a process.
mod objects;
/// Calls that probes of the user's see.
mod own;
/// One MPI process.
mod process;
/// Receives as MPI libraries post and complete them.
mod receives;
/// A tracer as bytes.
mod saved;
/// Guest processes to script, for tests.
#[cfg(any(test, feature = "scripted"))]
pub mod scripted;
/// Which calls are recorded.
mod selection;
/// Where in its program a call is made.
mod sites;

pub use interception::targets::function::{FunctionError, check_code, functions_called};
pub use interception::targets::{PAGE, TargetPage, Targets};
pub use memory::{BadAddress, GuestMemory};
pub use node::{MagicRegisters, NodeTracer};
pub use selection::{Selection, SelectionError, Window};

#[cfg(test)]
mod tests;
