//! Checks of the source tree: links, lists and facts of the book, layers of crates, prose, names of MPI functions, rounding,
//! dependencies.
//!
//! All but the dependencies and the prose are tests. Called by `groups` and by `main`.

/// Links of the book, and its table of contents.
#[cfg(test)]
mod book;
/// Licences, sources and advisories of packages.
pub(crate) mod dependencies;
/// Facts of the code that pages state.
#[cfg(test)]
mod facts;
/// Test harnesses of libraries.
#[cfg(test)]
mod harnesses;
/// Directions of dependencies between top folders.
#[cfg(test)]
mod layers;
/// Names of MPI functions in the sources.
#[cfg(test)]
mod literals;
/// The share of sentences that are hard to read.
pub(crate) mod prose;
/// Rounding of figures in the sources.
#[cfg(test)]
mod rounding;
/// The lists on the page of the tests.
#[cfg(test)]
mod testing_page;
