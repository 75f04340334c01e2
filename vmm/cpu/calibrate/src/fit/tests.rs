//! Files from given measurements.
use super::*;
#[test]
fn placeholder() {}
