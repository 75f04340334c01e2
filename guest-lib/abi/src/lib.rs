#![no_std]
//! Operation numbers and the register convention shared by guest and host.
