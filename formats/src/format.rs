//! The formats that are imported.
//!
//! Detection by content is in `detect`. Used by `import`, by the readers and by the command line.

/// A format that [`import`](crate::import) reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An archive of the Open Trace Format 2, by its anchor file.
    Otf2,
    /// A GOAL schedule, as text or in its binary form.
    Goal,
    /// A time-independent trace of SimGrid: a list of files, one with all ranks, or a folder with the list `ranks`.
    Ti,
}

impl Format {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Otf2 => "OTF2",
            Self::Goal => "GOAL",
            Self::Ti => "SimGrid's time-independent trace",
        }
    }
}
