//! What a workload wrote, for one who started a program and waits for its words.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::output::print;

/// Shows what the workload of the run in `directory` wrote: its standard output where the run has it
/// by itself, else the console of node 0 without what the kernel says.
///
/// # Errors
/// When standard output takes no more.
pub(super) fn show(directory: &Path) -> Result<()> {
    let read = |name: &str| fs::read(directory.join(name)).ok();
    if let Some(output) = read("stdout") {
        if let Some(errors) = read("stderr") {
            eprint!(
                "{}",
                super::fit_for_terminal(&String::from_utf8_lossy(&errors))
            );
        }
        return print(String::from_utf8_lossy(&output));
    }
    let console = read("console/node0.log").unwrap_or_default();
    let console = String::from_utf8_lossy(&console).replace('\r', "");
    let lines = console.lines().filter(|line| !is_kernels(line));
    print(lines.map(|line| format!("{line}\n")).collect::<String>())
}

/// Whether a line begins with the time by which the kernel stamps its own, `[    0.000000] `.
fn is_kernels(line: &str) -> bool {
    let stamp = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    stamp.is_some_and(|(time, _)| {
        let time = time.trim_start();
        time.contains('.') && time.chars().all(|c| c.is_ascii_digit() || c == '.')
    })
}

#[cfg(test)]
mod tests {
    use super::is_kernels;

    #[test]
    fn the_kernels_lines_are_told_from_programs() {
        assert!(is_kernels("[    0.000000] Linux version 6.1.0"));
        assert!(is_kernels("[12345.678901] x"));
        for line in ["hello", "[0] rank", "[rank 0.5] x", "[]", "[1.5]"] {
            assert!(!is_kernels(line), "{line}");
        }
    }
}
