//! Scenario to run directory: plans, rounds, and what the `belljar` command does.
//!
//! A [`Scenario`](scenario::Scenario) is what a file says; a [`Plan`](plan::Plan) is
//! that resolved; a [`Run`](coordinator::Run) carries it out and fills a
//! [`RunDirectory`](run_directory::RunDirectory).

pub mod batch;
pub mod bisect;
pub mod boot;
pub mod capture;
pub mod checkpoint;
pub mod control;
pub mod coordinator;
mod crew;
pub mod doctor;
mod ending;
pub mod engine;
pub mod folder;
pub mod follow;
pub mod horizon;
pub mod host_memory;
pub mod hosts;
pub mod keyboard;
pub mod large_files;
pub mod link_log;
pub mod monitor;
pub mod mpirun;
pub mod outputs;
pub mod parts;
pub mod plan;
mod probes;
mod processors;
pub mod progress;
pub mod quantity;
mod recorder;
pub mod run_directory;
pub mod run_disk;
pub mod runner;
pub mod sandbox;
pub mod scenario;
mod stopwatch;
pub mod stream;
pub mod summary;
pub mod sweep;
pub mod template;
mod time_model;
pub mod watch;
