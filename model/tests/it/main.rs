//! Tests of models through public functions, in one program.
//!
//! Each module is a kind of program; `programs` writes the traces that they learn from.
#![allow(missing_docs)]

mod applications;
mod groups;
mod patterns;
mod programs;
mod stencil;
