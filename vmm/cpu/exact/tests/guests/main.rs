//! Tests of the engine that run guests alone, in one program.
//!
//! Tests that execute code on the host's processor, too, are programs of their own: their signal handlers and the addresses
//! of their memory belong to the whole process.
#![allow(missing_docs)]

mod code;
mod models;
mod processor;
mod sharing;
