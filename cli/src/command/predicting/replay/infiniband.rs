//! Replays of jobs whose nodes have InfiniBand cards.
//!
//! Messages between nodes pass the cards' network, by whichever model; Ethernet only starts the job. Called by `job` for each setting.

use std::collections::BTreeSet;

use anyhow::Result;
use belljar_cluster::plan::infiniband::InfinibandPlan;
use belljar_cluster::scenario::{Scenario, SpeedName};
use belljar_fabric::{LinkSpec, Settings};
use belljar_networks::{Cards, InfinibandModel, Parameters};
use belljar_program::Operation;
use belljar_replay::{NetworkModel, Tolerance};
use belljar_sim::Span;

use super::job::{Job, Model};

/// Bytes of data of a full packet: UCX's limit for this card.
const MTU: u64 = 2_048;
/// Most bytes of a message in a request: with UCX's header, the largest that took no read of memory in runs of growing messages.
const INLINE: u64 = 92;
/// Bytes on a link of a full packet, and its data. The models of flows and of formulas divide messages into frames of Ethernet.
const PACKET: [u64; 2] = [2_074, MTU];
/// The same of a full frame.
const FRAME: [u64; 2] = [1_538, 1_448];

/// Bytes from which on UCX 1.13 has the receiver's card read a message, found by bisection in runs. It compares estimates that depend on the generation
/// that the card reports: FDR, or EDR for all later ones.
const RENDEZVOUS: [u64; 2] = [165_600, 29_984];

/// The size from which on a message is read by its receiver's card.
pub(in crate::command) fn rendezvous(scenario: &Scenario) -> u64 {
    let speed = scenario.infiniband.as_ref().map(|table| table.speed);
    let [fdr, later] = RENDEZVOUS;
    if speed == Some(SpeedName::Fdr) {
        fdr
    } else {
        later
    }
}

/// Warnings about cards in the trace's scenario and in the `wanted` one, which has these keys overridden.
///
/// # Errors
/// If a scenario's keys are refused.
pub(super) fn warnings(
    job: &Job<'_>,
    wanted: &Scenario,
    overrides: &[String],
) -> Result<Vec<String>> {
    let traced = job.scenario(&[])?;
    let plan = job.infiniband(wanted)?;
    let has_control = plan
        .as_ref()
        .is_some_and(InfinibandPlan::has_congestion_control);
    let mut warnings = plan.map(|plan| plan.warnings).unwrap_or_default();
    if has_control {
        warnings.push(
            "replays have no congestion control: infiniband.congestion has no effect, and messages of congested links are uncertain".to_owned(),
        );
    }
    let had = traced.infiniband.is_some();
    let has = wanted.infiniband.is_some();
    if had != has {
        let [before, after] = [had, has].map(|it| if it { "InfiniBand" } else { "Ethernet" });
        warnings.push(format!(
            "the run was over {before}, and the replay is over {after}: each call's residual is that of another kind of network, and the start of MPI is as in the trace"
        ));
    }
    warnings.extend(keys_of_ethernet(overrides).filter(|_| has));
    let operations = job.program.threads.iter().flat_map(|it| &it.operations);
    let mut accesses = operations.filter(|it| matches!(it, Operation::Access { .. }));
    if has && accesses.next().is_some() {
        warnings.push(
            "one-sided operations are played as requests that the target's library answers, but InfiniBand cards read and write contiguous data by themselves: their times are uncertain".to_owned(),
        );
    }
    Ok(warnings)
}

/// A warning about keys that change Ethernet only.
fn keys_of_ethernet(overrides: &[String]) -> Option<String> {
    let keys = overrides.iter().filter_map(|it| it.split('=').next());
    let keys: Vec<&str> = keys
        .map(str::trim)
        .filter(|key| *key == "network" || key.starts_with("network."))
        .collect();
    (!keys.is_empty()).then(|| {
        format!(
            "messages take the network of the InfiniBand cards, to which {} {} not apply: set keys of infiniband, such as infiniband.cable",
            keys.join(", "),
            if keys.len() == 1 { "does" } else { "do" }
        )
    })
}

/// The network of a plan in this model.
pub(in crate::command) fn network(plan: &InfinibandPlan, model: Model) -> NetworkModel {
    let delays = plan.delays;
    let cards = delays.send + delays.receive;
    let topology = plan.topology.clone();
    match model {
        Model::Packet => NetworkModel::Infiniband(Box::new(InfinibandModel {
            topology,
            routing: plan.routes.routing,
            seed: plan.routes.seed,
            flow: plan.flow,
            cards: Cards {
                send: delays.send,
                receive: delays.receive,
                answer: delays.answer,
                fetch: delays.fetch,
                bus: delays.bus,
                mtu: MTU,
                inline: INLINE,
            },
        })),
        Model::Flow => {
            // Each path has two links of hosts, which take the cards' delays.
            let of_card = Span::from_ps(cards.as_ps() / 2);
            let hosts: BTreeSet<u32> = (0..topology.hosts())
                .map(|host| topology.link_of(host))
                .collect();
            let mut link = 0;
            let topology = topology.with_links(|spec| {
                let is_of_host = hosts.contains(&link);
                link += 1;
                LinkSpec {
                    bandwidth: as_frames(spec.bandwidth),
                    latency: spec.latency + if is_of_host { of_card } else { Span::ZERO },
                }
            });
            let settings = Settings {
                routing: plan.routes.routing,
                seed: plan.routes.seed,
                ..Settings::default()
            };
            NetworkModel::Flow(topology, settings)
        }
        Model::Loggops => {
            let link = topology.links()[topology.link_of(0) as usize].spec;
            let switch = topology.switches().first().map(|switch| switch.latency);
            let latency = link.latency + link.latency + switch.unwrap_or(Span::ZERO) + cards;
            let parameters = Parameters {
                latency,
                gap: Span::ZERO,
                bandwidth: as_frames(link.bandwidth),
            };
            NetworkModel::LogGops(topology.hosts(), parameters)
        }
    }
}

/// A tolerance in the model of formulas, with the bandwidths of the cards' links.
pub(super) fn of_links(mut found: Tolerance) -> Tolerance {
    found.bandwidth = as_packets(found.bandwidth);
    for level in &mut found.levels {
        level.bandwidth = level.bandwidth.map(as_packets);
    }
    found
}

/// Bits per second of a link whose packets carry as many data as frames of Ethernet do at `bandwidth`.
fn as_packets(bandwidth: u64) -> u64 {
    with_overhead(bandwidth, FRAME, PACKET)
}

/// Bits per second at which frames of Ethernet carry as many data as packets do at `bandwidth`.
fn as_frames(bandwidth: u64) -> u64 {
    with_overhead(bandwidth, PACKET, FRAME)
}

/// Bits per second at which units of the second kind carry as many data as those of the first do at `bandwidth`. A kind has its bytes on a link, and
/// its data.
fn with_overhead(bandwidth: u64, [from, from_data]: [u64; 2], [to, to_data]: [u64; 2]) -> u64 {
    let scaled = u128::from(bandwidth) * u128::from(from_data * to);
    u64::try_from(scaled / u128::from(from * to_data)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_do_not_apply_are_named() {
        let keys = [
            "network.latency=\"20 us\"",
            "infiniband.cable=\"1 us\"",
            "network={}",
        ];
        let warning = keys_of_ethernet(&keys.map(str::to_owned)).expect("a warning");
        assert!(
            warning.contains("to which network.latency, network do not apply"),
            "{warning}"
        );
        assert_eq!(keys_of_ethernet(&["infiniband.lanes=2".to_owned()]), None);
    }

    /// A thousand full packets' data take as long in frames.
    #[test]
    fn frames_carry_the_data_of_packets() {
        let rate = 100_000_000_000;
        let bytes = 1_000 * MTU;
        let packets = Span::of_transfer(1_000 * PACKET[0], rate);
        let frames = Span::of_transfer(belljar_networks::on_wire(bytes), as_frames(rate));
        assert!(packets.as_ps().abs_diff(frames.as_ps()) * 1_000 < packets.as_ps());
    }
}
