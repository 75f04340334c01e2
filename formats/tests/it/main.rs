//! Tests of formats through their public functions, in one program.
//!
//! Each module is a format or a reader; `program` has the traced program that they export, and `python` the readers in Python.
// A test that cannot run prints a message.
#![allow(missing_docs, clippy::print_stderr)]

mod otf2;
mod paraver;
mod program;
mod python;
mod round_trip;
mod schedules;
mod shown;
mod tables;
