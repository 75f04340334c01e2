//! `cargo xtask kvm-unit-tests DIR`: runs the x86 cases of a built kvm-unit-tests tree
//! with `belljar boot` and prints their results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{BuildProfile, build_belljar};

/// Limits of one case: virtual time, and seconds of host time.
const LIMIT: &str = "20 s";
const HOST_SECONDS: &str = "120";
/// Maximum number of processors of a node.
const MOST_PROCESSORS: u32 = 64;
/// Exit codes of their exit device for success, failures, and "skipped".
const PASSED: i32 = 1;
const FAILED: i32 = 3;
const SKIPPED: i32 = 77;
/// Exit codes of `timeout`.
const TIMED_OUT: [i32; 2] = [124, 137];

#[derive(clap::Args)]
pub(crate) struct KvmUnitTestsArguments {
    /// Tree, configured for x86_64 and built.
    tree: PathBuf,
    /// Run only cases with one of these in their names.
    only: Vec<String>,
    /// Write each case's console here, as NAME.log.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

/// A case of `x86/unittests.cfg`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Case {
    name: String,
    file: String,
    arguments: String,
    processors: u32,
    is_benchmark: bool,
    memory: Option<u32>,
    arch: Option<String>,
}

/// The result of a case.
struct CaseOutcome {
    verdict: &'static str,
    passes: usize,
    failures: usize,
    why: String,
}

pub(crate) fn run(arguments: &KvmUnitTestsArguments) -> Result<()> {
    let list = arguments.tree.join("x86/unittests.cfg");
    let text = fs::read_to_string(&list)
        .with_context(|| format!("cannot read {}; name a kvm-unit-tests tree", list.display()))?;
    let belljar = build_belljar(BuildProfile::Release)?;
    let folder = arguments.logs.clone().unwrap_or_else(std::env::temp_dir);
    fs::create_dir_all(&folder)?;
    let mut counts = [0; 3];
    println!(
        "{:<36} {:<8} {:>5} {:>5}  why",
        "case", "result", "pass", "fail"
    );
    for case in parse(&text) {
        let wanted = arguments.only.iter().any(|part| case.name.contains(part));
        if !(arguments.only.is_empty() || wanted) {
            continue;
        }
        let outcome = try_case(&case, &belljar, &arguments.tree, &folder)?;
        if let Some(logs) = &arguments.logs {
            fs::write(logs.join(format!("{}.log", case.name)), &outcome.1)?;
        }
        let outcome = outcome.0;
        let slot = ["PASS", "FAIL", "SKIP"]
            .iter()
            .position(|word| *word == outcome.verdict)
            .unwrap_or(1);
        counts[slot] += 1;
        println!(
            "{:<36} {:<8} {:>5} {:>5}  {}",
            case.name, outcome.verdict, outcome.passes, outcome.failures, outcome.why
        );
    }
    println!(
        "{} passed, {} failed, {} skipped",
        counts[0], counts[1], counts[2]
    );
    Ok(())
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            cases.push(Case {
                name: name.to_owned(),
                processors: 1,
                ..Case::default()
            });
            continue;
        }
        let (Some(case), Some((key, value))) = (cases.last_mut(), line.split_once('=')) else {
            continue;
        };
        let value = value.trim().trim_matches(['\'', '"']).to_owned();
        match key.trim() {
            "file" => case.file = value,
            "groups" => case.is_benchmark = value == "vmexit",
            "arch" => case.arch = Some(value),
            "test_args" => case.arguments = value,
            // A number, or a shell expression over the host's processors.
            "smp" => case.processors = value.parse().unwrap_or(2),
            "qemu_params" | "extra_params" => {
                let mut words = value.split_whitespace().skip_while(|word| *word != "-m");
                case.memory = words.nth(1).and_then(megabytes);
            }
            _ => {}
        }
    }
    cases
}

/// QEMU's `-m`: megabytes, or gigabytes with a `g`.
fn megabytes(text: &str) -> Option<u32> {
    match text.to_ascii_lowercase().strip_suffix('g') {
        Some(gigabytes) => gigabytes.parse::<u32>().ok()?.checked_mul(1024),
        None => text.parse().ok(),
    }
}

fn try_case(
    case: &Case,
    belljar: &Path,
    tree: &Path,
    folder: &Path,
) -> Result<(CaseOutcome, String)> {
    let skip = |why: &str| CaseOutcome {
        verdict: "SKIP",
        passes: 0,
        failures: 0,
        why: why.to_owned(),
    };
    let kernel = tree.join("x86").join(&case.file);
    if case.arch.as_deref().is_some_and(|arch| arch != "x86_64") || !kernel.exists() {
        return Ok((skip("not built for x86_64"), String::new()));
    }
    if case.is_benchmark && case.name != "vmexit_cpuid" {
        return Ok((skip("measures how long exits take"), String::new()));
    }
    let level = if std::arch::is_x86_feature_detected!("avx2") {
        "x86-64-v3"
    } else {
        "x86-64-v2"
    };
    let processors = case.processors.min(MOST_PROCESSORS).to_string();
    let environment = folder.join("kvm-unit-tests.env");
    fs::write(
        &environment,
        format!("NR_CPUS={processors}\nMEMSIZE=512\nTEST_DEVICE=0\nBOOTLOADER=1\n"),
    )?;
    let memory = format!("{} MiB", case.memory.unwrap_or(512));
    let output = Command::new("timeout")
        .args(["--kill-after=1", HOST_SECONDS])
        .arg(belljar)
        .args(["boot", "--exit-device", "--no-input"])
        .args(["--limit", LIMIT, "--memory", &memory, "--level", level])
        .args(["--vcpus", &processors, "--append", &case.arguments])
        .arg("--kernel")
        .arg(&kernel)
        .arg("--initrd")
        .arg(environment)
        .output()
        .context("cannot start timeout(1)")?;
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    // `timeout` kills itself in the same way as its child.
    let code = output.status.code().unwrap_or(TIMED_OUT[1]);
    Ok((judge(code, &console, &errors), console + &errors))
}

fn judge(code: i32, console: &str, errors: &str) -> CaseOutcome {
    let count = |word: &str| {
        console
            .lines()
            .filter(|line| line.starts_with(word))
            .count()
    };
    let told = |text: &str, start: &str| {
        let line = text.lines().find(|line| line.starts_with(start));
        line.map_or_else(String::new, str::to_owned)
    };
    let error = told(errors, "error:");
    let (verdict, why) = match code {
        PASSED if error.is_empty() => ("PASS", String::new()),
        FAILED => ("FAIL", told(console, "FAIL")),
        SKIPPED => ("SKIP", told(console, "SKIP")),
        code if TIMED_OUT.contains(&code) => ("FAIL", "takes too long on the host".to_owned()),
        _ if !error.is_empty() => ("FAIL", error),
        code => ("FAIL", format!("exit status {code}")),
    };
    CaseOutcome {
        verdict,
        passes: count("PASS"),
        failures: count("FAIL"),
        why: why.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_as_their_own_runner_does() {
        let text = "# x\n[one]\nfile = a.flat\ntest_args = 'b c'\nqemu_params = -cpu max -m 4g\n\n\
                    [two]\nfile = d.flat\nsmp = 3\narch = i386\n";
        let cases = parse(text);
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].arguments, "b c");
        assert_eq!((cases[0].memory, cases[0].processors), (Some(4096), 1));
        assert_eq!(cases[1].processors, 3);
        assert_eq!(cases[1].arch.as_deref(), Some("i386"));
    }

    #[test]
    fn exit_codes_tell_the_verdict() {
        let of = |code, console: &str, errors: &str| judge(code, console, errors).verdict;
        assert_eq!(of(1, "PASS: a\n", ""), "PASS");
        assert_eq!(of(1, "", "error: the guest reset itself"), "FAIL");
        assert_eq!(of(3, "FAIL: b\n", ""), "FAIL");
        assert_eq!(of(77, "SKIP: c\n", ""), "SKIP");
        assert_eq!(judge(3, "PASS: a\nFAIL: b\n", "").why, "FAIL: b");
    }
}
