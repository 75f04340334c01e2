//! Scripted processes against the tracer.

mod collectives;
mod failures;
mod headers;
mod layers;
mod messages;
mod objects;
mod probes;
mod protocol;
mod replaced;
mod script;
