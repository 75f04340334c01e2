//! Tests of the tracer with scripted processes.

/// Buffers that operations own, for all implementations.
mod buffers;
/// Collective operations, for both implementations.
mod collectives;
/// Calls that return errors, for both implementations.
mod failures;
/// The tables against the headers of both implementations: every function, every datatype.
mod headers;
/// Entries of the preloaded library's table.
mod layers;
/// Messages and requests, for both implementations.
mod messages;
/// Datatypes of both implementations.
mod objects;
/// Calls found by probes: the guest is unchanged, and no call is recorded twice.
mod probes;
/// The magic protocol: entries, returns, and errors of guests.
mod protocol;
/// Replaced return addresses, and their description for unwinders.
mod replaced;
/// A scripted process of each implementation, with their differences.
mod script;
