//! Abilities of this machine, engine by engine, and missing packages.
//!
//! It inspects and tests the machine, and changes nothing. Each finding about a missing part says how to
//! install it. Called by `belljar doctor`.

use std::fmt::Write;

use belljar_cpu::Level;
use belljar_kvm::RequestedMeans;
use belljar_sim::Span;

use serde::Serialize;

use belljar_cluster::host::sandbox::Sandbox;

/// One result of the examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The examined part.
    pub subject: String,
    /// True if it is in order.
    pub good: bool,
    /// The result, and the remedy if it is not in order.
    pub detail: String,
}

/// Examines all parts.
pub fn examine() -> Vec<Finding> {
    let mut findings = vec![exact_engine(), kvm_engine(), sandbox(), processors()];
    findings.extend(image_tools());
    findings
}

fn finding(subject: &str, good: bool, detail: impl Into<String>) -> Finding {
    Finding {
        subject: subject.to_owned(),
        good,
        detail: detail.into(),
    }
}

fn exact_engine() -> Finding {
    if let Err(error) = belljar_exact::host_requirements(&Level::V1.into()) {
        return finding("engine exact", false, error.to_string());
    }
    let levels: Vec<&str> = Level::ALL
        .into_iter()
        .filter(|&level| belljar_exact::host_requirements(&level.into()).is_ok())
        .map(Level::name)
        .collect();
    let detail = format!("usable, for guests of {}", levels.join(", "));
    finding("engine exact", true, detail)
}

/// Tests the kvm engine, which takes less than a second.
fn kvm_engine() -> Finding {
    match belljar_kvm::probe(RequestedMeans::default()) {
        Ok(probe) => {
            let detail = format!(
                "usable: a traced call costs {} by {}, a stopped clock, moved by {}, is off by {} at most",
                Span::from_ns(probe.call),
                probe.means.breakpoints,
                probe.means.tsc,
                Span::from_ns(probe.jitter)
            );
            finding("engine kvm", true, detail)
        }
        Err(why) => finding("engine kvm", false, why.to_string()),
    }
}

fn sandbox() -> Finding {
    let found = Sandbox::new().and_then(|_| Sandbox::knows_reach());
    match found {
        Ok(true) => finding(
            "sandbox",
            true,
            "guests run under a seccomp filter, which was tried and holds, and in a Landlock domain",
        ),
        Ok(false) => finding(
            "sandbox",
            true,
            "guests run under a seccomp filter, which was tried and holds; this kernel has no Landlock",
        ),
        Err(error) => finding("sandbox", false, error.to_string()),
    }
}

fn processors() -> Finding {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    finding(
        "processors",
        true,
        format!("{count}: this many nodes run in parallel"),
    )
}

fn image_tools() -> Vec<Finding> {
    let missing = belljar_images::missing_tools();
    if missing.is_empty() {
        return vec![finding("image tools", true, "all installed")];
    }
    missing
        .iter()
        .map(|tool| {
            let detail = format!(
                "{} is missing, which {}; apt install {}",
                tool.command, tool.why, tool.package
            );
            finding("image tools", false, detail)
        })
        .collect()
}

/// The findings as lines.
pub fn render(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = if finding.good { "ok" } else { "--" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{mark}  {:<13} {}", finding.subject, finding.detail);
    }
    text
}
