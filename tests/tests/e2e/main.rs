//! External tests of Belljar: whole runs of the `belljar` command. Each module is a group
//! of `cargo xtask test`.
#![allow(missing_docs, clippy::print_stderr)]

mod bisect;
mod boot;
mod checkpoint;
mod containers;
mod debug;
mod determinism;
mod digests;
mod explore;
mod groups;
mod hostile;
mod hosts;
mod infiniband;
mod input;
mod install;
mod kernels;
mod kvm;
mod look;
mod mpi;
mod mpirun;
mod network;
mod noise;
mod outputs;
mod partition;
mod peers;
mod perturbation;
mod programs;
mod replay;
mod sandbox;
mod smp;
mod snapshot;
mod timing;
mod trace;
mod tutorial;
