//! Warnings about networks of replays: links without traffic, and parts of hosts that replays do not model.
//!
//! Called by `replay`, `replay --vary` and `place`.

use std::collections::BTreeSet;

use anyhow::Result;
use belljar_cluster::plan::network_warnings;
use belljar_cluster::scenario::Scenario;
use belljar_program::Program;
use belljar_replay::{NetworkModel, Setting};
use belljar_trace::MpiLibrary;

use super::infiniband;
use super::job::{Job, JobArguments};
use crate::command::results::trace::tables::implementation;

/// Payload of modelled frames: the costs of frames were measured with it, and without offload.
const MTU: u16 = 1500;

impl Job<'_> {
    /// Warnings about the trace's network as these options change it.
    ///
    /// # Errors
    /// When a scenario's keys are refused.
    pub(super) fn network_warnings(
        &self,
        arguments: &JobArguments,
        setting: &Setting,
    ) -> Result<Vec<String>> {
        let mut warnings = network_warnings_of(setting)?;
        let wanted = self.scenario(&arguments.overrides())?;
        warnings.extend(unmodelled(&self.scenario(&[])?, &wanted));
        warnings.extend(infiniband::warnings(self, &wanted, &arguments.overrides())?);
        let library = implementation(&self.trace)?.library();
        let has_cards = wanted.infiniband.is_some();
        if library == MpiLibrary::OpenMpi && !has_cards && !arguments.overrides().is_empty() {
            warnings.extend(contacts(&self.program));
        }
        Ok(warnings)
    }
}

/// Links and ports of a setting's network without traffic. Empty if its model has no links.
///
/// # Errors
/// If the routing does not fit the topology.
pub(in crate::command) fn network_warnings_of(setting: &Setting) -> Result<Vec<String>> {
    match &setting.network {
        NetworkModel::Packet(topology, settings) | NetworkModel::Flow(topology, settings) => {
            Ok(network_warnings(topology, settings)?)
        }
        NetworkModel::LogGops(..) | NetworkModel::Infiniband(_) => Ok(Vec::new()),
    }
}

/// Warnings about network cards of the trace and of the replay.
fn unmodelled(traced: &Scenario, wanted: &Scenario) -> Vec<String> {
    let cards = |scenario: &Scenario| (scenario.network.mtu, scenario.network.offload);
    let places = match cards(traced) == cards(wanted) {
        true => vec![("trace and replay", traced)],
        false => vec![("trace", traced), ("replay", wanted)],
    };
    let warnings = places
        .into_iter()
        .filter_map(|(place, of)| warning(place, of));
    warnings.collect()
}

fn warning(place: &str, scenario: &Scenario) -> Option<String> {
    let (mtu, offload) = (scenario.network.mtu, scenario.network.offload);
    let cards = match (mtu == MTU, offload) {
        (true, false) => return None,
        (false, false) => format!("frames of {mtu} bytes"),
        (true, true) => "TCP offload".to_owned(),
        (false, true) => format!("TCP offload and frames of {mtu} bytes"),
    };
    Some(format!(
        "the network of the {place} has {cards}, but frames of {MTU} bytes without offload are played: times of messages longer than a frame are uncertain"
    ))
}

/// Warning about first messages of Open MPI. The library then makes a TCP connection, and polls for its events every 10 ms until
/// one is made (`opal_progress_set_event_poll_rate`). The number of ticks depends on the order of events within microseconds, so
/// a replay keeps the times of the trace. `None` if all processes are on one node.
fn contacts(program: &Program) -> Option<String> {
    let nodes: BTreeSet<u32> = program.processes.iter().map(|it| it.node).collect();
    (nodes.len() > 1).then(|| {
        "Open MPI makes connections at ticks of 10 ms: the first messages of processes may take up to 30 ms more or less than in the trace"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn cards_that_differ_are_named() {
        let scenario = |keys: &str| {
            let text = format!(
                "name = \"n\"\n[image]\nrecipe = \"i.toml\"\n[nodes]\ncount = 2\nmemory = \"256 MiB\"\nclock = \"2 GHz\"\n[workload]\ncommand = \"c\"\n[network]\n{keys}"
            );
            Scenario::parse(Path::new("scenario.toml"), &text, &[]).unwrap()
        };
        let (plain, jumbo) = (scenario(""), scenario("mtu = 9000"));
        let offload = scenario("offload = true");
        assert_eq!(unmodelled(&plain, &plain), Vec::<String>::new());
        let both = unmodelled(&jumbo, &jumbo);
        assert!(
            both.len() == 1 && both[0].contains("the trace and replay has frames of 9000 bytes")
        );
        let two = unmodelled(&jumbo, &offload);
        assert!(
            two[0].contains("of the trace has frames")
                && two[1].contains("of the replay has TCP offload")
        );
    }
}
