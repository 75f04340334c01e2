//! A network in words: the lines about it that `belljar check` prints.
//!
//! Shows the topology that was built, not the keys that were written. Long lists of links are cut. Called
//! by `plan/describe.rs`.

use std::collections::BTreeMap;
use std::fmt::Write;

use belljar_fabric::{Endpoint, Impairment, LinkSpec, Settings, Topology};
use belljar_sim::figures::{counted, counted_as};
use belljar_sim::{Span, Time};

use super::LISTED;
use crate::scenario::quantity::{Bandwidth, describe_link};

/// The lines about the network of `belljar check`: its kind in words, its topology, and its operation.
pub(in crate::plan) fn describe(
    words: &str,
    topology: &Topology,
    settings: &Settings,
    warnings: &[String],
) -> String {
    let measures = topology.measures();
    let mut text = String::new();
    let mut kinds: BTreeMap<(bool, u64, Span), u64> = BTreeMap::new();
    for link in topology.links() {
        let inner = matches!(link.ends[0], Endpoint::Switch(_));
        *kinds
            .entry((inner, link.spec.bandwidth, link.spec.latency))
            .or_default() += 1;
    }
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "network    {}: {}, {}; lookahead {}",
        words,
        counted_as(topology.switches().len() as u64, "switch", "switches"),
        counted(topology.links().len() as u64, "link"),
        topology.lookahead()
    );
    let halves = measures.bisection.map_or_else(String::new, |bisection| {
        let at_most = if bisection.is_bound { "at most " } else { "" };
        format!(
            "; {at_most}{} from one half of the nodes to the other",
            Bandwidth(bisection.bandwidth)
        )
    });
    let _ = writeln!(
        text,
        "           at most {} between nodes{halves}",
        counted(measures.diameter.into(), "link")
    );
    for ((inner, bandwidth, latency), count) in kinds.iter().take(LISTED) {
        let of = if *inner {
            "between switches"
        } else {
            "of nodes"
        };
        let link = describe_link(&LinkSpec {
            bandwidth: *bandwidth,
            latency: *latency,
        });
        let _ = writeln!(text, "           {} {of}: {link}", counted(*count, "link"));
    }
    for warning in warnings {
        let _ = writeln!(text, "           warning: {warning}");
    }
    for (link, impairment) in settings.impairments.iter().take(LISTED) {
        let name = topology.link_name(*link);
        let _ = writeln!(
            text,
            "           {name}: {}",
            describe_impairment(impairment)
        );
    }
    if settings.impairments.len() > LISTED {
        let more = settings.impairments.len() - LISTED;
        let _ = writeln!(
            text,
            "           and {} with losses, jitter or failures",
            counted(more as u64, "more link")
        );
    }
    text
}

fn describe_impairment(impairment: &Impairment) -> String {
    let mut words = Vec::new();
    if impairment.loss > 0.0 {
        words.push(format!("loses {} of its frames", impairment.loss));
    }
    if impairment.jitter > Span::ZERO {
        words.push(format!("up to {} late", impairment.jitter));
    }
    for outage in &impairment.outages {
        words.push(match outage.until {
            Time::MAX => format!("fails at {}", outage.from),
            until => format!("fails from {} to {until}", outage.from),
        });
    }
    words.join(", ")
}
