//! Networks from files, and their saved states.
//!
//! A graph that is read is consistent, and a restored state runs up to a time without a panic; other
//! input is refused. Called by name from `lib.rs`.

use std::sync::Arc;

use belljar_congestion::{
    CongestionControl, DcqcnControl, IbaControl, RateSettings, TableSettings,
};
use belljar_fabric::graphml::Graph;
use belljar_fabric::{
    Fabric, FabricState, Impairment, LinkSpec, Mac, Outage, PartSpecs, Routes, Settings,
    SwitchSpec, Topology, Torus,
};
use belljar_lossless::{CardDelays, Flow, Lossless, LosslessState};
use belljar_sim::{Seed, Span, Time};
use bincode::Encoding;

/// Events of a restored network are handled up to here, in picoseconds.
const END: u64 = 1 << 40;

/// Reads a graph, which must be consistent.
pub(crate) fn graphml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // Errors are expected; only panics are defects.
    if let Ok(graph) = Graph::parse(text) {
        let nodes = graph.nodes.len();
        let mut ends = graph.edges.iter().flat_map(|edge| edge.ends);
        assert!(ends.all(|end| end < nodes), "an edge leads nowhere");
    }
}

/// Graphs as other tools write them.
pub(crate) fn graphml_seeds() -> Vec<Vec<u8>> {
    let undirected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
        <key id=\"k\" for=\"node\" attr.name=\"kind\"><default>switch</default></key>\n\
        <key id=\"l\" for=\"edge\" attr.name=\"latency\"/>\n\
        <graph edgedefault=\"undirected\"><node id=\"a\"><data key=\"k\">host</data></node>\n\
        <node id=\"b\"/><edge source=\"a\" target=\"b\"><data key=\"l\">1 &#117;s</data></edge>\n\
        <!-- --><edge source=\"b\" target=\"a\"/></graph></graphml>";
    let directed = undirected.replace("undirected", "directed");
    [undirected, &directed]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

/// A ring of switches with one host each.
fn ring(hosts: u32, queue_bytes: u64) -> Topology {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let parts = PartSpecs {
        link,
        uplink: link,
        switch: SwitchSpec {
            latency: Span::from_ns(300),
            queue_bytes,
        },
    };
    let torus = Torus {
        dimensions: vec![hosts],
        hosts_per_switch: 1,
    };
    torus
        .build(hosts, &parts)
        .expect("a torus of one dimension")
}

/// A small network with all kinds of impairments.
fn network() -> Fabric {
    let topology = ring(3, 4096);
    let outage = Outage {
        from: Time::ZERO + Span::from_us(3),
        until: Time::ZERO + Span::from_us(9),
    };
    let impairment = Impairment {
        loss: 0.1,
        jitter: Span::from_us(1),
        outages: vec![outage],
    };
    let settings = Settings {
        impairments: vec![(3, impairment)],
        statistics: Some(Span::from_ms(1)),
        ..Settings::default()
    };
    Fabric::with_settings(topology, &settings).expect("any topology has shortest routes")
}

/// Restores a state and lets the network run.
pub(crate) fn state(data: &[u8]) {
    let decoded = Encoding::<{ 1 << 20 }>::decode_state::<FabricState>(data);
    let Ok((state, _)) = decoded else {
        return;
    };
    let mut fabric = network();
    if fabric.restore(state).is_err() {
        return;
    }
    for _ in fabric.advance(Time::from_ps(END)) {}
    let _ = fabric.take_captured();
    assert_eq!(
        fabric.take_records(Time::ZERO).count(),
        0,
        "nothing is settled yet"
    );
    let _ = fabric.save();
}

/// States without and with frames in transit.
pub(crate) fn state_seeds() -> Vec<Vec<u8>> {
    let mut busy = network();
    busy.watch(3);
    for number in 0..12_u64 {
        let host = (number % 3) as u32;
        let mut frame = vec![0; 100];
        frame[..6].copy_from_slice(&Mac::of_host((host + 1) % 3).0);
        let time = Time::ZERO + Span::from_ns(number * 400);
        busy.send(time, host, number, frame.into());
    }
    for _ in busy.advance(Time::ZERO + Span::from_us(4)) {}
    let save = |fabric: &Fabric| Encoding::<{ 1 << 20 }>::encode_state(&fabric.save());
    [save(&network()), save(&busy)]
        .map(|bytes| bytes.expect("plain values"))
        .to_vec()
}

/// A ring with two virtual lanes and little room.
fn lossless() -> Lossless {
    let delays = CardDelays {
        before: Span::from_ns(60),
        after: Span::from_ns(220),
        bus: 100_000_000_000,
    };
    let flow = Flow {
        buffer: 350,
        lanes: 2,
        gap: Span::ZERO,
    };
    Lossless::new(ring(5, 0), &Routes::default(), delays, flow)
        .expect("any topology has shortest routes")
}

/// Congestion control by a number: none, InfiniBand's own or DCQCN, with marks of short queues and short timers.
pub(crate) fn congestion_control(number: u8) -> Option<Arc<CongestionControl>> {
    let iba = IbaControl {
        threshold: 0,
        shortest: 0,
        between: 1,
        table: TableSettings {
            increase: 3,
            timer: Span::from_ns(1),
            least: 1,
            delays: (0..100).collect(),
        },
    };
    let dcqcn = DcqcnControl {
        low: 0,
        high: 300,
        probability: 1 << 31,
        seed: Seed(1),
        interval: Span::from_ns(1),
        rate: RateSettings {
            gain: 1 << 20,
            alpha_timer: Span::from_us(1),
            timer: Span::from_us(1),
            bytes: 1_000,
            recovery: 1,
            additive: 1_000_000_000,
            hyper: 1_000_000_000,
            least: 1_000_000,
        },
    };
    match number % 3 {
        0 => None,
        1 => Some(Arc::new(CongestionControl::Iba(iba))),
        _ => Some(Arc::new(CongestionControl::Dcqcn(dcqcn))),
    }
}

/// Restores a state of a lossless network and lets it run, with more packets, without and with congestion control.
pub(crate) fn lossless_state(data: &[u8]) {
    for number in 0..3 {
        continue_lossless(data, congestion_control(number));
    }
}

fn continue_lossless(data: &[u8], control: Option<Arc<CongestionControl>>) {
    let decoded = Encoding::<{ 1 << 20 }>::decode_state::<LosslessState>(data);
    let Ok((state, _)) = decoded else {
        return;
    };
    let mut fabric = lossless().with_control(control);
    if fabric.restore(state).is_err() {
        return;
    }
    for _ in fabric.advance(Time::from_ps(END)) {}
    send_around(&mut fabric, Time::from_ps(END));
    for _ in fabric.advance(Time::from_ps(2 * END)) {}
    let _ = (fabric.circle(), fabric.next_time(), fabric.save());
}

/// Each host sends packets to the second next one.
fn send_around(fabric: &mut Lossless, begin: Time) {
    for number in 0..60_u64 {
        let host = (number % 5) as u16;
        let mut packet = vec![0; 100];
        packet[2..4].copy_from_slice(&((host + 2) % 5 + 1).to_be_bytes());
        packet[6..8].copy_from_slice(&(host + 1).to_be_bytes());
        fabric.send(
            begin + Span::from_us(1),
            u32::from(host),
            1 << 30 | number,
            packet,
        );
    }
}

/// States without and with packets in transit.
pub(crate) fn lossless_seeds() -> Vec<Vec<u8>> {
    let mut busy = lossless();
    send_around(&mut busy, Time::ZERO);
    for _ in busy.advance(Time::ZERO + Span::from_us(6)) {}
    let save = |fabric: &Lossless| Encoding::<{ 1 << 20 }>::encode_state(&fabric.save());
    [save(&lossless()), save(&busy)]
        .map(|bytes| bytes.expect("plain values"))
        .to_vec()
}
