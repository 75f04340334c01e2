//! What policies remember from one decision to the next.
//!
//! A simulation that continues from saved state decides as if it had never been broken off: what its policies remember is part of that state. Implemented by each policy; called by the simulation.

/// What a policy remembers. For one that decides by what it is asked alone, as most do, an empty `impl` is enough.
pub trait Memory {
    /// All that it remembers and that its decisions depend on.
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Remembers what was saved; whether it can be that of such a policy. The bytes may be anybody's.
    #[must_use]
    fn restore(&mut self, saved: &[u8]) -> bool {
        saved.is_empty()
    }
}
