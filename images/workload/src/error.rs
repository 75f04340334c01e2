//! Errors of programs that cannot run on the nodes.
//!
//! Each is one line with the program, the image and the user's next step. Returned by the checks of programs,
//! printed by `mpirun`, `check` and `run`.

use std::path::PathBuf;

use crate::Mpi;

/// The reason why a program cannot run on the nodes. Programs have their names in `workload.files`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The image cannot be read.
    #[error("cannot read the files of the image {path}: {reason}")]
    Root {
        /// Its root file system.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The program is for another processor architecture.
    #[error("`{program}` is a program for {machine}, and nodes are x86-64: compile it for x86-64")]
    Machine {
        /// The program.
        program: String,
        /// The architecture.
        machine: String,
    },
    /// The program needs another libc, or its interpreter is absent.
    #[error("`{program}` is run by {interpreter}, which the image {image} does not have: {advice}")]
    Interpreter {
        /// The program.
        program: String,
        /// The loader or the script's interpreter.
        interpreter: String,
        /// The image's recipe.
        image: String,
        /// The next step for the user.
        advice: &'static str,
    },
    /// Its MPI is not in the image.
    #[error("`{program}` is linked to {mpi} ({library}), and the image {image} has {has_instead}")]
    Mpi {
        /// The program.
        program: String,
        /// Its MPI.
        mpi: Mpi,
        /// The library that determines the MPI.
        library: String,
        /// The image's recipe.
        image: String,
        /// The MPI of the image, and the next step for the user.
        has_instead: String,
    },
    /// The program is linked to two MPI implementations.
    #[error(
        "`{program}` is linked to MPICH ({mpich}) and to Open MPI ({open_mpi}) at once: link it and its libraries to one of them"
    )]
    Mixed {
        /// The program.
        program: String,
        /// A library of one implementation.
        mpich: String,
        /// A library of the other implementation.
        open_mpi: String,
    },
    /// A library is too old.
    #[error(
        "`{program}` needs {version}, and the image {image} has an older one{newest}: compile it on an older distribution, or take a newer image"
    )]
    Version {
        /// The program or library.
        program: String,
        /// The required version, and its library.
        version: String,
        /// The image's recipe.
        image: String,
        /// The version of the image, as a text.
        newest: String,
    },
    /// Libraries are missing.
    #[error(
        "`{program}` needs libraries that neither the image {image} nor {places} has: {libraries}; {advice}"
    )]
    Missing {
        /// The program.
        program: String,
        /// The image's recipe.
        image: String,
        /// The other searched places.
        places: &'static str,
        /// Names of the libraries, each with the library that needs it if that is not the program.
        libraries: String,
        /// The next step for the user.
        advice: &'static str,
    },
    /// The image has no shell, which every workload needs.
    #[error(
        "the image {0} has no /bin/sh, which runs the workload: add busybox-static or dash to its recipe"
    )]
    NoShell(String),
}
