//! Batch scripts with `#SBATCH` lines, as Slurm's users have them.
//!
//! Slurm itself reads the options when the script is submitted on the nodes. `belljar` reads them first, so that the nodes have
//! the requested processors, memory, partitions, features and licences. Called by `belljar sbatch-script`.

/// From options to nodes, and the variables of the job.
mod layout;
/// Options of `sbatch`.
mod options;
/// Lines of words in quotes.
mod words;

pub use layout::{BatchLayout, Component};
pub use options::Job;
pub use words::split as split_words;

/// An error in the options of a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// No first line that names an interpreter.
    #[error(
        "{0} does not begin with #!, as batch scripts do: write #!/bin/bash into its first line"
    )]
    NoScript(String),
    /// Lines end as on DOS.
    #[error(
        "{name}: line {line} ends with a DOS line break (\\r\\n), which sbatch refuses; convert the file with: dos2unix {name}"
    )]
    DosLines {
        /// The script.
        name: String,
        /// The first such line, from 1.
        line: usize,
    },
    /// An invalid value.
    #[error("{place}: {option} {value}: {wanted}")]
    Value {
        /// The line, or the option of the command line.
        place: String,
        /// The option.
        option: String,
        /// Its value.
        value: String,
        /// Accepted values.
        wanted: &'static str,
    },
    /// Devices that nodes do not have.
    #[error(
        "{place}: {option} {value}: nodes have no such devices; remove the option from the script"
    )]
    Devices {
        /// The line, or the option of the command line.
        place: String,
        /// The option.
        option: String,
        /// Its value.
        value: String,
    },
    /// More tasks than room.
    #[error(
        "{tasks} tasks do not fit on {nodes} nodes with {each} tasks each: request more nodes, or more tasks for each"
    )]
    Room {
        /// Tasks.
        tasks: u32,
        /// Nodes.
        nodes: u32,
        /// Tasks of each.
        each: u32,
    },
}

#[cfg(test)]
mod tests;
