//! Reads MPI headers with a C parser and writes the table of operations.
//!
//! The table lists every function of the C binding that any of the headers declares, in alphabetical order; the index of a function is
//! its operation number. Both sides of the magic instruction are built from the table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lang_c::driver::{Config, parse};

/// Function prototypes in a parsed header.
mod prototypes;
/// The table as Rust source.
mod render;

pub use belljar_mpi::{Base, Standard};
pub use prototypes::{Parameter, Prototype};
pub use render::{first_line, render};

/// An error of reading a header.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The preprocessor or the parser refused the header.
    #[error("cannot parse {path}: {reason}; is a C compiler installed?")]
    Parse {
        /// The header.
        path: PathBuf,
        /// The parser's message.
        reason: String,
    },
    /// A prototype uses a type that the table does not support.
    #[error(
        "{function} has a parameter of type `{type_name}`, which the table cannot describe; add it to `Base`"
    )]
    UnknownType {
        /// The function.
        function: String,
        /// The type's name in the header.
        type_name: String,
    },
    /// A header declares no MPI function at all.
    #[error("{0} declares no function of the MPI C binding")]
    Empty(PathBuf),
}

/// Headers of Debian's MPICH and Open MPI.
pub const DEBIAN_HEADERS: [&str; 2] = [
    "/usr/include/x86_64-linux-gnu/mpich/mpi.h",
    "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h",
];

/// Headers of this crate with functions of standards later than [`DEBIAN_HEADERS`].
pub const LATER_HEADERS: [(Standard, &str); 3] = [
    (
        Standard::Mpi41,
        concat!(env!("CARGO_MANIFEST_DIR"), "/headers/mpi-4.1.h"),
    ),
    (
        Standard::Mpi50,
        concat!(env!("CARGO_MANIFEST_DIR"), "/headers/mpi-5.0.h"),
    ),
    (
        Standard::FaultTolerance,
        concat!(env!("CARGO_MANIFEST_DIR"), "/headers/fault-tolerance.h"),
    ),
];

/// The prototypes of these headers, which declare MPI 4.0, and of [`LATER_HEADERS`], by name. If two headers spell a function's
/// parameters differently, the first takes precedence.
///
/// # Errors
/// See [`GenerateError`].
pub fn read_headers(headers: &[&Path]) -> Result<Vec<Prototype>, GenerateError> {
    let installed = headers.iter().map(|header| (Standard::Mpi40, *header));
    let later = LATER_HEADERS
        .iter()
        .map(|(standard, header)| (*standard, Path::new(*header)));
    let mut all = BTreeMap::new();
    for (standard, header) in installed.chain(later) {
        let found = read_header(header)?;
        if found.is_empty() {
            return Err(GenerateError::Empty(header.to_path_buf()));
        }
        for prototype in found {
            // Libraries' headers declare extensions next to the standard's functions.
            let standard = match prototype.name.starts_with("MPIX_") {
                true => Standard::FaultTolerance,
                false => standard,
            };
            let prototype = Prototype {
                standard,
                ..prototype
            };
            all.entry(prototype.name.clone()).or_insert(prototype);
        }
    }
    Ok(all.into_values().collect())
}

/// The name and version of the implementation that a header's text belongs to.
pub fn version(header: &str) -> Option<String> {
    let value = |name: &str| {
        let line = header
            .lines()
            .find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
        line.map(|value| value.trim().trim_matches('"').to_owned())
    };
    if let Some(version) = value("MPICH_VERSION ") {
        return Some(format!("MPICH {version}"));
    }
    let [major, minor, release] = [
        "OMPI_MAJOR_VERSION ",
        "OMPI_MINOR_VERSION ",
        "OMPI_RELEASE_VERSION ",
    ]
    .map(value);
    Some(format!("Open MPI {}.{}.{}", major?, minor?, release?))
}

fn read_header(header: &Path) -> Result<Vec<Prototype>, GenerateError> {
    let mut config = Config::with_gcc();
    if let Some(folder) = header.parent() {
        config.cpp_options.push(format!("-I{}", folder.display()));
    }
    let parsed = parse(&config, header).map_err(|error| GenerateError::Parse {
        path: header.to_path_buf(),
        reason: error.to_string(),
    })?;
    prototypes::collect(&parsed.unit)
}
