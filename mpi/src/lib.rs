//! The functions of MPI's C binding, and the meaning of each.
//!
//! [`FUNCTIONS`] lists the prototypes, in the order of names; a function's index is its number in traces and at the
//! magic instruction. [`Meaning`] describes a call of the function: one row for each base function, from which the
//! large-count (`_c`), nonblocking (`I...`) and persistent (`..._init`) forms follow. The table of meanings is total and
//! computed by the compiler: a function without a row does not compile. No other crate parses names of functions.
//!
//! ```
//! use belljar_mpi::{CallKind, Operation, Phase, meaning, number};
//!
//! let function = number("MPI_Iallreduce_c").unwrap();
//! assert_eq!(meaning(function).kind, CallKind::Collective(Operation::Allreduce));
//! assert_eq!(meaning(function).phase, Phase::Begun);
//! ```

/// Description of a function of the C binding.
mod function;
/// The table of functions, generated from the headers by `cargo xtask generate`.
mod functions;
/// The meaning of each function.
mod meaning;
/// Collective operations.
mod operation;

pub use function::{Base, Function, Parameter, Standard};
pub use functions::FUNCTIONS;
pub use meaning::{
    Access, Boundary, CallKind, Completes, Creation, Epoch, Meaning, Meeting, Object, Phase,
    SendMode, lays_out_grids, makes_window_of_other_memory, meaning, meaning_of, observes_request,
    sets_attribute,
};
pub use operation::Operation;

/// Returns the number of the function with this name, including `MPI_`. `None` for a name that the table lacks.
pub fn number(name: &str) -> Option<u16> {
    let found = FUNCTIONS.binary_search_by(|function| function.name.cmp(name));
    found.ok().map(|index| index as u16)
}

/// Returns today's number of the function with this number in traces written before functions of later
/// [standards](Standard) than MPI 4.0 joined the table. `None` for a number that those traces cannot have.
pub fn renumbered(number: u16) -> Option<u16> {
    let first = FUNCTIONS.iter().zip(0..);
    let mut first = first.filter(|(function, _)| function.standard == Standard::Mpi40);
    first.nth(number.into()).map(|(_, number)| number)
}
