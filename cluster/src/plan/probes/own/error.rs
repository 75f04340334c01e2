//! Errors of the user's probes.
//!
//! Each names the table's file or key. Part of the errors of a plan.

use belljar_trace::{MOST_PROBES, UnknownKind};
use belljar_tracer::FunctionError;
use belljar_vmm::KernelError;

/// Maximum number of files that match a probe's pattern.
pub(super) const MOST_FILES: usize = 256;

/// Errors of the user's probes.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A conflict with another setting of the scenario.
    #[error("{0} needs {1}")]
    Needs(&'static str, &'static str),
    /// Too many probes.
    #[error("trace.probe and trace.messages are {0} probes; the limit is {MOST_PROBES}")]
    TooMany(usize),
    /// No library with messages to record.
    #[error(
        "trace.messages: neither the image nor workload.files has a library whose messages can be seen: UCX's libucp.so, by which MPICH 4 sends, or Open MPI 4's mca_pml_ob1.so"
    )]
    NoMessages,
    /// A table is incomplete or contradictory.
    #[error("trace.probe of {file}: {reason}")]
    Table {
        /// The file that it names.
        file: String,
        /// The reason.
        reason: &'static str,
    },
    /// An unknown type.
    #[error("trace.probe of {file}: {source}")]
    Kind {
        /// The file that it names.
        file: String,
        /// The type.
        source: UnknownKind,
    },
    /// No such file.
    #[error(
        "trace.probe: neither the image nor workload.files has a file {0}; write a path from / in the image, or a name in workload.files"
    )]
    NoFile(String),
    /// A pattern that matches too many files.
    #[error("trace.probe: {0} matches more than {MOST_FILES} files; write a narrower pattern")]
    TooManyFiles(String),
    /// The file has no such place.
    #[error("trace.probe: {file} {source}")]
    Place {
        /// The file.
        file: String,
        /// The reason.
        source: FunctionError,
    },
    /// The kernel's functions are unknown.
    #[error("trace.probe of kernel: {0}")]
    Kernel(#[from] KernelPlaceError),
}

/// Errors of finding a place in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelPlaceError {
    /// Its file cannot be read.
    #[error(transparent)]
    File(#[from] KernelError),
    /// It has no table of functions.
    #[error("it has no table of its functions (CONFIG_KALLSYMS)")]
    NoTable,
    /// No function of that name.
    #[error(
        "it has no function `{name}`{near}; /proc/kallsyms of a node lists what it has, modules' functions apart"
    )]
    Unknown {
        /// The name.
        name: String,
        /// Similar names of functions.
        near: String,
    },
    /// There is no function at the address.
    #[error(
        "it has no function at {0:#x}; take an address from /proc/kallsyms on a node, which begins with 0xffffffff8"
    )]
    NoCode(u64),
}
