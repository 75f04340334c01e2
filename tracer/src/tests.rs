//! Scripted processes against the tracer.

mod collectives;
mod messages;
mod objects;
mod probes;
mod protocol;
mod script;
