//! MPI events, their decoding from guest memory, the trace format and its analyses.
