//! Tests of the network through its public functions, in one program.
//!
//! Each module is a subject; `net` has the networks that they share.
#![allow(missing_docs)]

mod bisection;
mod delivery;
mod dragonfly;
mod net;
mod networks;
mod routings;
mod shapes;
