//! Warnings about network cards that replays do not model.
//!
//! Costs of frames were measured with frames of 1500 bytes and without offload. Called by `replay`.

use belljar_cluster::scenario::Scenario;

/// Payload of frames that replays model.
const MTU: u16 = 1500;

/// Warnings about the cards on the network of the trace and on that of the replay.
pub(super) fn unmodelled(traced: &Scenario, wanted: &Scenario) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn cards_that_differ_are_named() {
        let scenario = |keys: &str| {
            let text = format!("[network]\n{keys}\n[workload]\ncommand = \"true\"\n");
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
