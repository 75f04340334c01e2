//! Tests of trace files through public functions, in one program.
//!
//! Each module is a subject; `events` has the events that they write.
#![allow(missing_docs)]

mod archive;
mod convert;
mod events;
mod golden;
mod probes;
mod sites;
