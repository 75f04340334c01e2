//! This host's resources: its memory, and the rights of its threads.
//!
//! This module depends on no part of a run except its directory. `plan` queries the memory, and the run confines
//! the threads of guests.

/// Available memory of this host.
pub mod memory;
/// Confinement of guests that break out.
pub mod sandbox;
