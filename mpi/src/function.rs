//! Descriptions of functions of the MPI C binding.
//!
//! They suffice to read a call from outside: the type of each argument, and whether its target is an input or an
//! output. The generated table [`FUNCTIONS`](crate::FUNCTIONS) consists of these; the tracer reads arguments by them.

/// The type of a parameter, or of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// `void`: a buffer, by a pointer to it.
    Void,
    /// `char`: text, by a pointer to it.
    Char,
    /// `int`.
    Int,
    /// `double`.
    Double,
    /// `MPI_Aint`.
    Aint,
    /// `MPI_Count`.
    Count,
    /// `MPI_Offset`.
    Offset,
    /// `MPI_Fint`.
    Fint,
    /// `MPI_Comm`.
    Comm,
    /// `MPI_Datatype`.
    Datatype,
    /// `MPI_Errhandler`.
    Errhandler,
    /// `MPI_File`.
    File,
    /// `MPI_Group`.
    Group,
    /// `MPI_Info`.
    Info,
    /// `MPI_Message`.
    Message,
    /// `MPI_Op`.
    Op,
    /// `MPI_Request`.
    Request,
    /// `MPI_Session`.
    Session,
    /// `MPI_Status`.
    Status,
    /// `MPI_Win`.
    Win,
    /// A function pointer.
    Callback,
}

/// One parameter; each travels in one 64-bit register or stack word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the header.
    pub name: &'static str,
    /// Its type, or its target's.
    pub base: Base,
    /// Levels of pointer or array around the base.
    pub pointer: u8,
    /// True if the pointed-to object is const: an input, not an output.
    pub is_const: bool,
}

/// The standard that introduced a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standard {
    /// MPI 4.0 or earlier.
    Mpi40,
    /// MPI 4.1, or an erratum of 4.0.
    Mpi41,
    /// MPI 5.0.
    Mpi50,
    /// User-Level Failure Mitigation, an extension of libraries (`MPIX_`).
    FaultTolerance,
}

/// One function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Its result. All functions except a few return an `int` error code.
    pub result: Base,
    /// The standard that introduced it.
    pub standard: Standard,
    /// Its parameters in order.
    pub parameters: &'static [Parameter],
}

/// Shorthand for the generated table.
pub(crate) const fn parameter(
    name: &'static str,
    base: Base,
    pointer: u8,
    is_const: bool,
) -> Parameter {
    Parameter {
        name,
        base,
        pointer,
        is_const,
    }
}
