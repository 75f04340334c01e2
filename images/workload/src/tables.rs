//! Tables of collective algorithms of an image's MPI library.
//!
//! The tables are read from the library's file, so they are those of the run's ranks. Used by
//! `belljar trace matrix`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use belljar_collectives::{MAX_LIBRARY_BYTES, TableError, Tables};
use belljar_trace::{Implementation, MpiLibrary};

use crate::{GuestRoot, Mpi};

/// Error of reading tables.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The image has no such library.
    #[error(
        "the image has no MPICH and no Open MPI library, which says how collective operations are carried out; name the library's file with --library"
    )]
    None,
    /// The library cannot be read.
    #[error("cannot read the library {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the host.
        source: io::Error,
    },
    /// The library has no tables.
    #[error("{path}: {source}")]
    Tables {
        /// The file, here or in the image.
        path: PathBuf,
        /// The reason.
        source: TableError,
    },
}

/// Reads the tables of the MPI library in an image: MPICH's, or Open MPI's if MPICH is absent or not `first`.
///
/// # Errors
/// Returns an error if the image has no MPI library, or if the library has no tables.
pub fn tables_in(root: &GuestRoot, first: Implementation) -> Result<Tables, LibraryError> {
    let kinds = match first.library() {
        MpiLibrary::Mpich | MpiLibrary::Unknown => [Mpi::Mpich, Mpi::OpenMpi],
        MpiLibrary::OpenMpi => [Mpi::OpenMpi, Mpi::Mpich],
    };
    let names = kinds.into_iter().flat_map(Mpi::libraries);
    let mut paths = names.filter_map(|name| root.library(name));
    let path = paths.next().ok_or(LibraryError::None)?;
    let bytes = root.start(&path, MAX_LIBRARY_BYTES).unwrap_or_default();
    of_bytes(&bytes, Path::new(&path))
}

/// Reads the tables of the MPI library in a file of this host.
///
/// # Errors
/// Returns an error if the file cannot be read, or if it has no tables.
pub fn tables_of(path: &Path) -> Result<Tables, LibraryError> {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_LIBRARY_BYTES).read_to_end(&mut bytes));
    read.map_err(|source| LibraryError::Read {
        path: path.to_owned(),
        source,
    })?;
    of_bytes(&bytes, path)
}

fn of_bytes(bytes: &[u8], path: &Path) -> Result<Tables, LibraryError> {
    Tables::of_library(bytes).map_err(|source| LibraryError::Tables {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use belljar_collectives::Library;

    use super::*;

    #[test]
    fn an_image_with_two_libraries_tells_of_the_one_that_is_asked_for() {
        let mut root = GuestRoot::default();
        let table =
            b"\0{\"collective=scan\":{\"algorithm=MPIR_Scan_intra_recursive_doubling\":{}}}\0";
        root.add("/usr/lib/x86_64-linux-gnu/libmpich.so.12", table);
        let open_mpi = b"\0v4.1.4\0Open MPI v%d.%d.%d";
        root.add("/usr/lib/x86_64-linux-gnu/libmpi.so.40", open_mpi);
        for (first, library) in [
            (Implementation::Mpich, Library::Mpich),
            (Implementation::OpenMpi, Library::OpenMpi),
        ] {
            assert_eq!(tables_in(&root, first).unwrap().library(), library);
        }
    }

    #[test]
    fn a_librarys_tables_are_found_in_an_image() {
        let mut root = GuestRoot::default();
        assert!(matches!(
            tables_in(&root, Implementation::Mpich),
            Err(LibraryError::None)
        ));
        root.add("/usr/lib/x86_64-linux-gnu/libmpich.so.12.2.2", b"\x7fELF");
        root.link(
            "/usr/lib/x86_64-linux-gnu/libmpich.so.12",
            "libmpich.so.12.2.2",
        );
        let error = tables_in(&root, Implementation::Mpich)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("libmpich.so.12.2.2: the library has no decision tables"),
            "{error}"
        );
        let table =
            b"\0{\"collective=scan\":{\"algorithm=MPIR_Scan_intra_recursive_doubling\":{}}}\0";
        root.add("/usr/lib/x86_64-linux-gnu/libmpich.so.12.2.2", table);
        assert!(tables_in(&root, Implementation::Mpich).is_ok());
    }
}
