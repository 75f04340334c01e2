//! The two MPI implementations of images, by the names of their libraries and launchers.
//!
//! A name belongs to one of them or to neither. Used for programs and images.

use std::fmt;

/// An MPI implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mpi {
    /// MPICH, and libraries with its binary interface.
    Mpich,
    /// Open MPI.
    OpenMpi,
}

impl Mpi {
    /// Both, in the order of trials without other evidence.
    pub const ALL: [Self; 2] = [Self::Mpich, Self::OpenMpi];

    /// Returns the implementation of the library `name`, such as `libmpi.so.40`. `None` for other libraries.
    pub fn of_library(name: &str) -> Option<Self> {
        let (stem, version) = name.split_once(".so")?;
        let version = version.trim_start_matches('.').split('.').next()?;
        let is_mpich = stem.starts_with("libmpich") || stem.starts_with("libmpicxx");
        let is_open_mpi = stem.starts_with("libopen-rte") || stem.starts_with("libopen-pal");
        if is_mpich {
            return Some(Self::Mpich);
        }
        // Both implementations have these names, with different versions: MPICH's binary interface has 12.
        let is_either = stem == "libmpi"
            || stem == "libmpifort"
            || ["libmpi_", "libmpi++"]
                .iter()
                .any(|start| stem.starts_with(start));
        match (is_either, version) {
            _ if is_open_mpi => Some(Self::OpenMpi),
            (true, "12") => Some(Self::Mpich),
            (true, "20" | "40" | "80") => Some(Self::OpenMpi),
            _ => None,
        }
    }

    /// Returns its name as part of the names of Debian's packages and of recipes.
    pub fn short_name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
        }
    }

    /// Returns the programs that launch its ranks, the most common first.
    pub fn launchers(self) -> &'static [&'static str] {
        match self {
            Self::Mpich => &["mpiexec.hydra", "mpiexec.mpich"],
            Self::OpenMpi => &["orterun", "mpirun.openmpi", "prterun"],
        }
    }

    /// Returns the name of the library of a rank.
    pub fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::Mpich => &["libmpich.so.12", "libmpi.so.12"],
            Self::OpenMpi => &["libmpi.so.40"],
        }
    }

    /// True if one of these packages of a distribution contains it.
    pub fn is_in(self, packages: &[String]) -> bool {
        let name = self.short_name();
        let is_its = |package: &String| {
            let package = package.strip_prefix("lib").unwrap_or(package);
            package.starts_with(name)
        };
        packages.iter().any(is_its)
    }

    /// The names of both.
    pub fn other(self) -> Self {
        match self {
            Self::Mpich => Self::OpenMpi,
            Self::OpenMpi => Self::Mpich,
        }
    }
}

impl fmt::Display for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mpich => "MPICH",
            Self::OpenMpi => "Open MPI",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_apart_by_name_and_version() {
        for name in [
            "libmpich.so.12",
            "libmpi.so.12",
            "libmpichfort.so.12",
            "libmpichcxx.so.12",
            "libmpifort.so.12",
        ] {
            assert_eq!(Mpi::of_library(name), Some(Mpi::Mpich), "{name}");
        }
        for name in [
            "libmpi.so.40",
            "libmpi_mpifh.so.40",
            "libmpi_usempif08.so.40",
            "libmpi_cxx.so.40",
            "libmpi_usempi_ignore_tkr.so.40",
            "libopen-rte.so.40",
        ] {
            assert_eq!(Mpi::of_library(name), Some(Mpi::OpenMpi), "{name}");
        }
        for name in ["libc.so.6", "libmpfr.so.6", "libmpi", "libmpi.so.3", ""] {
            assert_eq!(Mpi::of_library(name), None, "{name}");
        }
    }
}
