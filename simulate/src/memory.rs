//! The state of policies between decisions.
//!
//! A simulation that continues from saved state decides as without interruption, so the state of its policies is part of it. Implemented by each policy; used by the
//! simulation.

/// The state of a policy. For a stateless policy, as most are, an empty `impl` suffices.
pub trait Memory {
    /// Returns the whole state that its decisions depend on.
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Restores the saved state, and returns true if it is valid for such a policy. The bytes are untrusted.
    #[must_use]
    fn restore(&mut self, saved: &[u8]) -> bool {
        saved.is_empty()
    }
}
