//! This host, as a run uses it: what memory it can give, and what its threads may do.
//!
//! Nothing here knows of a run but its directory. `plan` asks for memory, and whoever carries a run out confines
//! the threads on which guests run.

/// What memory this host can give.
pub mod memory;
/// What keeps a guest that broke out inside its own run.
pub mod sandbox;
