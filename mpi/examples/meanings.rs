//! Prints the meaning of every function: `cargo run -p belljar-mpi --example meanings`.
//!
//! Each function has one line, in the order of the table, so that two revisions of the table can be compared with `diff`.
//! For reviews of the table; programs do not call it.
#![allow(clippy::print_stdout)]

use belljar_mpi::{FUNCTIONS, meaning};

fn main() {
    for (function, number) in FUNCTIONS.iter().zip(0..) {
        let it = meaning(number);
        println!(
            "{} {} {:?} {:?} {:?} polls={} asks={} defines={}",
            function.name,
            it.base,
            it.kind,
            it.phase,
            it.meeting,
            it.polls,
            it.asks,
            it.defines()
        );
    }
}
