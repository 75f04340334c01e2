//! Scripted processes against the tracer.

mod messages;
mod objects;
mod protocol;
