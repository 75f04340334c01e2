//! The preloaded MPI library, ready to be placed in a guest.
