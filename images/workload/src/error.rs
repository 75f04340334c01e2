//! Why a program cannot run on the nodes.
//!
//! Each is one line that names program, image and a way out. Made where programs are looked at, told by
//! `mpirun`, `check` and `run`.

use std::path::PathBuf;

use crate::Mpi;

/// Why a program cannot run on the nodes. Programs are named as in `workload.files`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The image can't be looked into.
    #[error("cannot read the files of the image {path}: {reason}")]
    Root {
        /// Its root file system.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is for other processors.
    #[error("`{program}` is a program for {machine}, and nodes are x86-64: compile it for x86-64")]
    Machine {
        /// The program.
        program: String,
        /// What it is for.
        machine: String,
    },
    /// It is for another libc, or an interpreter is absent.
    #[error("`{program}` is run by {interpreter}, which the image {image} does not have: {advice}")]
    Interpreter {
        /// The program.
        program: String,
        /// The loader or the script's interpreter.
        interpreter: String,
        /// The image's recipe.
        image: String,
        /// What to do.
        advice: &'static str,
    },
    /// Its MPI is not in the image.
    #[error("`{program}` is linked to {mpi} ({library}), and the image {image} has {has_instead}")]
    Mpi {
        /// The program.
        program: String,
        /// Its MPI.
        mpi: Mpi,
        /// By which library.
        library: String,
        /// The image's recipe.
        image: String,
        /// What the image has instead, and what to do.
        has_instead: String,
    },
    /// It is linked to two implementations.
    #[error(
        "`{program}` is linked to MPICH ({mpich}) and to Open MPI ({open_mpi}) at once: link it and its libraries to one of them"
    )]
    Mixed {
        /// The program.
        program: String,
        /// A library of one.
        mpich: String,
        /// A library of the other.
        open_mpi: String,
    },
    /// A library is too old.
    #[error(
        "`{program}` needs {version}, and the image {image} has an older one{newest}: compile it on an older distribution, or take a newer image"
    )]
    Version {
        /// The program or library.
        program: String,
        /// What it needs, and of which library.
        version: String,
        /// The image's recipe.
        image: String,
        /// What it has, in words.
        newest: String,
    },
    /// Libraries are nowhere.
    #[error(
        "`{program}` needs libraries that neither the image {image} nor {places} has: {libraries}; {advice}"
    )]
    Missing {
        /// The program.
        program: String,
        /// The image's recipe.
        image: String,
        /// Where else was looked.
        places: &'static str,
        /// Their names, each with who needs it where that is another.
        libraries: String,
        /// What to do.
        advice: &'static str,
    },
    /// No shell to run anything with.
    #[error(
        "the image {0} has no /bin/sh, which runs the workload: add busybox-static or dash to its recipe"
    )]
    NoShell(String),
}
