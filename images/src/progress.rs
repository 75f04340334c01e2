//! What a build tells while it runs.
//!
//! Told to whoever started the build, in order; nothing depends on what is done with it. Shown by the
//! commands that build images.

/// One piece of news from a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A step begins.
    Step {
        /// Its number, from 1.
        number: u32,
        /// How many steps there are.
        of: u32,
        /// What it does, in words.
        what: String,
    },
    /// A line from a tool at work, for those who want to watch.
    Detail(String),
    /// Another build of the same image is under way and is waited for.
    Waiting,
    /// Something a person should know that stops nothing.
    Note(String),
}
