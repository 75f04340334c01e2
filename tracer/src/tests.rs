//! Scripted processes against the tracer.

/// Collective operations, for both implementations.
mod collectives;
/// Calls that return errors, for both implementations.
mod failures;
/// The tables against the headers of both implementations: every function, every datatype.
mod headers;
/// What the preloaded library's table leads to.
mod layers;
/// Messages and requests, for both implementations.
mod messages;
/// Datatypes of both implementations.
mod objects;
/// Calls that probes find: nothing of the guest changes, and nothing is seen twice.
mod probes;
/// The magic protocol: entering, returning, and what guests can do wrong.
mod protocol;
/// Return addresses that are replaced, and what unwinders are told of them.
mod replaced;
/// A process of each implementation to script, with what differs between them.
mod script;
