//! Scripted processes against the tracer.

mod collectives;
mod messages;
mod objects;
mod protocol;
mod script;
