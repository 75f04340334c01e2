//! The run's probes at functions by which MPI libraries send messages.
//!
//! MPICH's ch4:ucx calls UCX; Open MPI 4's point-to-point layer is a component, ob1. The symbols of both files have these
//! functions. All such files of the image and the workload get probes. Called for scenarios with `trace.messages`.

use std::collections::BTreeMap;

use belljar_trace::{MESSAGE, Probe, ProbeAt, ProbePurpose, ValueKind};

use super::{OwnProbe, ProbeError, ProbeSite, System, on_systems};

/// UCX, by the file name in its packages.
const UCX: &str = "*/libucp.so*";

/// Open MPI's component.
const OB1: &str = "*/mca_pml_ob1.so";

/// Probed functions: file, function, purpose.
const FUNCTIONS: [(&str, &str, ProbePurpose); 8] = [
    (UCX, "ucp_worker_get_address", ProbePurpose::UcxAddress),
    (UCX, "ucp_ep_create", ProbePurpose::UcxEndpoint),
    (UCX, "ucp_tag_send_nbx", ProbePurpose::UcxSend),
    (UCX, "ucp_tag_send_sync_nbx", ProbePurpose::UcxSend),
    (OB1, "mca_pml_ob1_send", ProbePurpose::OpenMpiSend),
    (OB1, "mca_pml_ob1_isend", ProbePurpose::OpenMpiIsend),
    (OB1, "mca_pml_ob1_isend_init", ProbePurpose::OpenMpiPrepare),
    (OB1, "mca_pml_ob1_start", ProbePurpose::OpenMpiStart),
];

/// The probes for messages.
///
/// # Errors
/// If no node has such a library, or one lacks a function.
pub(super) fn probes(
    systems: &mut [System<'_>],
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Vec<OwnProbe>, ProbeError> {
    let mut probes = Vec::new();
    for (file, symbol, purpose) in FUNCTIONS {
        match on_systems(file, ProbeSite::Symbol(symbol), systems, files) {
            Ok(places) => probes.push(OwnProbe {
                probe: probe(file, symbol, purpose),
                places,
            }),
            Err(ProbeError::NoFile(_)) => {}
            Err(error) => return Err(error),
        }
    }
    match probes.is_empty() {
        true => Err(ProbeError::NoMessages),
        false => Ok(probes),
    }
}

fn probe(file: &str, symbol: &str, purpose: ProbePurpose) -> Probe {
    let (name, at, arguments) = match purpose {
        _ if purpose.is_message() => {
            let kinds = MESSAGE.map(|(.., kind)| kind);
            ("message", ProbeAt::Entry, kinds.to_vec())
        }
        ProbePurpose::UcxEndpoint => (symbol, ProbeAt::Call, vec![ValueKind::Pointer; 2]),
        ProbePurpose::OpenMpiPrepare => {
            let mut kinds = MESSAGE.map(|(.., kind)| kind).to_vec();
            kinds.push(ValueKind::Pointer);
            (symbol, ProbeAt::Call, kinds)
        }
        _ => (symbol, ProbeAt::Call, vec![ValueKind::Pointer]),
    };
    Probe {
        name: name.to_owned(),
        file: file.to_owned(),
        at,
        arguments,
        result: None,
        purpose,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use belljar_workload::GuestRoot;

    #[test]
    fn an_image_without_such_a_library_is_refused() {
        let root = GuestRoot::default();
        let mut systems = [System::new(&root, Path::new("/"))];
        let error = probes(&mut systems, &BTreeMap::new()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("libucp.so") && error.contains("ob1"),
            "{error}"
        );
    }
}
