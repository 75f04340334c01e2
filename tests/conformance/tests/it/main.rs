//! Random MPI jobs, matched by all readers of traces, in one program.
#![allow(missing_docs)]

mod checks;
mod hangs;
mod random_jobs;
mod round_trips;
mod untimed;
