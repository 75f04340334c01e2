//! Tests of the engine that run on their own or in other ways: against the host's processor, and with shared translations.
//!
//! The unit tests of the crate run each of them once; these runs repeat some. Called by `groups`.

use anyhow::Result;

use crate::shell::{self, cargo, run_with};

/// Every instruction form and random programs, against the host's processor; then with shared translations.
pub(super) fn differential() -> Result<()> {
    let arguments = [
        "test",
        "--workspace",
        "--test",
        "forms",
        "--test",
        "sequences",
        "--",
        "--nocapture",
    ];
    shell::run(&cargo(), &arguments)?;
    pooled()
}

/// The engine's tests of changing, hot and stopped code, with guests that share translations. Of the random programs, one in
/// eight runs: what they compute is tested without the pool.
pub(super) fn pooled() -> Result<()> {
    let pool = ("BELLJAR_POOL", "1");
    let test = ["test", "--quiet", "--workspace", "--test"];
    let sequences = [&test[..], &["sequences"]].concat();
    run_with(&cargo(), &sequences, &[pool, ("BELLJAR_PROGRAMS", "750")])?;
    let mut guests = [&test[..], &["guests", "--"]].concat();
    guests.extend(POOLED);
    run_with(&cargo(), &guests, &[pool])?;
    // The same with code as of an earlier run.
    run_with(&cargo(), &guests, &[("BELLJAR_POOL", "saved")])
}

/// The modules of the program `guests` that also run with shared translations.
const POOLED: [&str; 6] = [
    "code::kernels::",
    "processor::hostile::",
    "code::hot::",
    "code::strides::",
    "models::timing::",
    "models::spaces::",
];

#[cfg(test)]
mod tests {
    use super::POOLED;

    #[test]
    fn pooled_modules_are_those_of_the_engines_tests() {
        let tests = crate::root().join("vmm/cpu/exact/tests/guests");
        for module in POOLED {
            let file = module.trim_end_matches("::").replace("::", "/");
            assert!(tests.join(file).with_extension("rs").exists(), "{module}");
        }
    }
}
