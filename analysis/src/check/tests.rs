//! Traces of programs with known errors.
