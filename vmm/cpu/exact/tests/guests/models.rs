//! Comparisons with models and recorded values.

mod bits;
mod coverage;
mod defined;
mod makers;
mod spaces;
mod timing;
