//! Progress of a build.
//!
//! Reported to the build's caller in order; the build does not depend on the caller's use of it.
//! Shown by the commands that build images.

/// One progress report of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildProgress {
    /// A step begins.
    Step {
        /// Its number, from 1.
        number: u32,
        /// The number of steps.
        of: u32,
        /// A description of the step.
        what: String,
    },
    /// A line of a tool's output, for verbose progress.
    Detail(String),
    /// The build waits for another build of the same image.
    Waiting,
    /// A warning that does not stop the build.
    Note(String),
}
