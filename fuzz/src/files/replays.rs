//! Replays of traces on other networks.
//!
//! A trace of any content becomes a program, which is calibrated and replayed on other networks by two models. Called by name from `lib.rs`.

use belljar_collectives::Tables;
use belljar_fabric::{LinkSpec, Settings, SwitchSpec, Topology};
use belljar_networks::Parameters;
use belljar_program::{Algorithms, extract};
use belljar_replay::{Costs, NetworkModel, Setting, calibrate, replay, write_trace};
use belljar_sim::{Frequency, Span};
use belljar_trace::Implementation;

use super::{archive_chunks, stored};

/// A star with this number of hosts, whose links have this latency.
fn star(hosts: u32, latency: Span) -> Topology {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency,
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    Topology::star(hosts, link, switch).expect("a star")
}

/// Limit on nodes.
const MOST_NODES: u32 = 64;

/// Extracts a program from a trace, and replays it.
pub(crate) fn target(data: &[u8]) {
    let Some(file) = stored(data, archive_chunks(data)) else {
        return;
    };
    let tables = Tables::open_mpi();
    let Ok((program, _)) = extract(file.path(), Algorithms::By(&tables)) else {
        return;
    };
    let nodes = program
        .processes
        .iter()
        .map(|process| process.node % MOST_NODES);
    let hosts: Vec<u32> = nodes.collect();
    let near = Span::from_us(1);
    let parameters = Parameters {
        latency: near,
        gap: near,
        bandwidth: 1_000_000_000,
    };
    let setting = |network| Setting {
        network,
        costs: Costs::of(Implementation::OpenMpi),
        clocks: vec![Frequency::from_hz(1_000_000_000).expect("a frequency")],
        hosts: hosts.clone(),
        scale: 1.0,
    };
    let traced = setting(NetworkModel::LogGops(MOST_NODES, parameters));
    let Ok(calibration) = calibrate(&program, &traced) else {
        return;
    };
    let far = star(MOST_NODES, Span::from_ms(1));
    let wanted = setting(NetworkModel::Flow(far, Settings::default()));
    if let Ok(outcome) = replay(&program, &calibration, &wanted, || true) {
        let folder = tempfile::tempdir().expect("a folder");
        let _ = write_trace(file.path(), &folder.path().join("t"), &program, &outcome);
    }
}
