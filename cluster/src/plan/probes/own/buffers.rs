//! The probe of accesses to buffers of MPI operations: it has no place, as the engine watches the buffers.
//!
//! Called for scenarios with `trace.buffers`.

use belljar_trace::{BUFFER_ACCESS, Probe, ProbeAt, ProbePurpose};

use super::{OwnProbe, Places, ProbeError};
use crate::scenario::Trace;

/// Checks that the tracer follows all calls: accesses during others would seem to be the program's.
///
/// # Errors
/// With the first key that leaves out calls.
pub(super) fn check(trace: &Trace) -> Result<(), ProbeError> {
    let needs = [
        (
            trace.functions.is_empty(),
            "no trace.functions: all calls must be followed",
        ),
        (
            trace.sample.is_empty(),
            "no trace.sample: all calls must be followed",
        ),
        (
            trace.from.is_none(),
            "no trace.from: all calls must be followed",
        ),
        (
            trace.until.is_none(),
            "no trace.until: all calls must be followed",
        ),
        (
            trace.collect.is_none(),
            "no trace.collect: records name calls that it omits",
        ),
    ];
    match needs.iter().find(|(is, _)| !is) {
        Some((_, what)) => Err(ProbeError::Needs("trace.buffers", what)),
        None => Ok(()),
    }
}

/// The probe, on nodes of this number of images.
pub(super) fn probe(images: usize) -> OwnProbe {
    OwnProbe {
        probe: Probe {
            name: "buffer access".to_owned(),
            file: String::new(),
            at: ProbeAt::Entry,
            arguments: BUFFER_ACCESS.map(|(.., kind)| kind).to_vec(),
            result: None,
            purpose: ProbePurpose::BufferAccess,
        },
        places: vec![Places::new(); images],
    }
}
