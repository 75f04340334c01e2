//! What an engine tells of a run.

/// An instruction that the engine does not implement, met by the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unimplemented {
    /// Where it was met first.
    pub rip: u64,
    /// The bytes there, as far as they could be read.
    pub bytes: Vec<u8>,
    /// How often it was met.
    pub count: u64,
}

/// What an engine tells of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineReport {
    /// Instructions met that raised #UD because they are not implemented.
    pub unimplemented: Vec<Unimplemented>,
    /// Stubs were made to count, because the guest abused that they do not.
    pub stubs_abused: bool,
    /// The engine's own counters, by name.
    pub counters: Vec<(&'static str, u64)>,
}
