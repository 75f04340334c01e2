//! What this machine can do, engine by engine, and what to install.

use std::fmt::Write;
use std::fs::OpenOptions;
use std::io;

use belljar_cpu::Level;

use crate::sandbox::Sandbox;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub subject: String,
    /// Whether it is as it should be.
    pub good: bool,
    /// What was found, and what to do about it.
    pub detail: String,
}

/// Looks at everything.
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

/// The kvm engine is not part of this version; what the device says is told all
/// the same, for those who wonder.
fn kvm_engine() -> Finding {
    let detail = match OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(_) => {
            "not in this version (/dev/kvm is there); scenarios run on engine exact".to_owned()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            "not in this version (and there is no /dev/kvm); scenarios run on engine exact"
                .to_owned()
        }
        Err(error) => {
            format!("not in this version (/dev/kvm: {error}); scenarios run on engine exact")
        }
    };
    finding("engine kvm", false, detail)
}

fn sandbox() -> Finding {
    match Sandbox::new() {
        Ok(_) => finding(
            "sandbox",
            true,
            "guests run under a seccomp filter, which was tried and holds",
        ),
        Err(error) => finding("sandbox", false, error.to_string()),
    }
}

fn processors() -> Finding {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    finding(
        "processors",
        true,
        format!("{count}: as many nodes run side by side"),
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
