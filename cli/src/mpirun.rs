//! Programs of a user, without a scenario: the request on the command line, the image that fits, and the scenario that runs them.
//!
//! [`request`](mpirun::request) reads options as MPICH's and Open MPI's launchers do, [`choose`](mpirun::choose) selects an image, and [`compose`](mpirun::compose) writes the scenario. Called by `belljar mpirun` and `sbatch-script`.

/// Selects the image that fits some programs.
pub mod choose;
/// The scenario of a request, as a readable text.
pub mod compose;
/// Requests of command lines.
pub mod request;
