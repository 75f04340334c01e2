//! Time-independent traces of SimGrid, with a platform for their replay.
//!
//! The traces have amounts of work and no times: a reader needs rates. Used by `import` and by `belljar trace export`.

/// Reading of traces.
pub(crate) mod reader;
/// Writing of traces.
mod writer;

pub use writer::{Amounts, Layout, write_hosts, write_platform, write_rank};
